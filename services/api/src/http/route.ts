import { randomUUID } from 'node:crypto';
import { ApiError } from '@carillon/core/api-error';
import { LIMITS } from '@carillon/core/limits';
import type { Logger } from '@carillon/runtime/logger';
import type { Metrics } from '@carillon/runtime/metrics';
import type { AccountDocument } from '@carillon/store/documents';
import type { Request, RequestHandler, Response } from 'express';
import {
  type Answer,
  type Headers,
  rateLimitHeaders,
  sendAnswer,
  sendError,
  toApiError,
} from './answer.ts';
import { type Caller, hasKey } from './authenticate.ts';
import { parseJsonObject } from './json-text.ts';
import type { Allowance } from './rate-limits.ts';

/** A JSON object as it came in: its value, and its text for what must not be changed. */
export interface Body {
  value: Record<string, unknown>;
  text: string;
}

/** What a handler gets of a request. */
export interface Incoming {
  params: Record<string, string>;
  body: Body;
  /** The client's address. */
  address: string;
  header(name: string): string | undefined;
  /** A query parameter. @throws ApiError INVALID_PARAM when it is given more than once */
  query(name: string): string | undefined;
}

type Handle = (incoming: Incoming, caller: Caller) => Promise<Answer>;
type HandleDevice = (incoming: Incoming) => Promise<Answer>;

/** Wraps handlers into Express's form: who asks, the body, one answer, one log line. */
export interface Routing {
  /** For the owner of an API key. */
  backend(options: { bodyBytes?: number }, handle: Handle): RequestHandler;
  /**
   * For devices, which prove themselves in the body. A failure of ours is 503: a device that is refused
   * registers anew. Pages of any origin may ask: no key and no cookie is involved.
   */
  device(handle: HandleDevice): RequestHandler;
  /** The same for a question, which has no body. */
  deviceQuestion(handle: HandleDevice): RequestHandler;
  /** For either: whoever brings an API key is a backend. */
  either(
    options: { bodyBytes: number },
    handle: Handle,
    handleDevice: HandleDevice,
  ): RequestHandler;
  /** For what isn't there. */
  refuse(error: () => ApiError): RequestHandler;
}

/** What is known of a request for its log line and its answer. */
interface Facts {
  id: string;
  app?: string;
  code?: string;
  headers: Headers;
}

const NO_BODY: Body = { value: {}, text: '{}' };
/** Nesting of a whole request: the payload's and the object around it. */
const BODY_DEPTH = LIMITS.payloadDepth + 1;
const DEVICE_BODY_BYTES = 16 * 1024;

/** Makes the wrappers of one process. */
export function createRouting(deps: {
  log: Logger;
  metrics: Metrics;
  authenticate: (request: Request) => Promise<Caller>;
  /** Counts a request of an account; undefined: it is unlimited. */
  countRequest: (account: AccountDocument) => Promise<Allowance | undefined>;
  readBody: (request: Request, limit: number) => Promise<string>;
  onSurprise: (error: unknown) => void;
}): Routing {
  const finish = createFinish(deps);

  async function read(request: Request, limit: number | undefined): Promise<Body> {
    if (limit === undefined) return NO_BODY;
    const text = await deps.readBody(request, limit);
    return { value: parseJsonObject(text, BODY_DEPTH), text };
  }

  function run(
    handle: (request: Request, facts: Facts) => Promise<Answer>,
    onFailure: (error: unknown) => ApiError = toApiError,
  ): RequestHandler {
    return async (request, response) => {
      const startedAt = performance.now();
      const id = randomUUID();
      const facts: Facts = { id, headers: { 'x-request-id': id } };
      try {
        sendAnswer(response, await handle(request, facts), facts.headers);
      } catch (thrown) {
        const error = onFailure(thrown);
        facts.code = error.code;
        if (!(thrown instanceof ApiError)) {
          deps.onSurprise(thrown);
          deps.log.error({ id, err: thrown }, 'request failed');
        }
        sendError(response, error, facts.headers);
      }
      finish(request, response, startedAt, facts);
    };
  }

  async function asBackend(
    request: Request,
    facts: Facts,
    bodyBytes: number | undefined,
    handle: Handle,
  ): Promise<Answer> {
    const caller = await deps.authenticate(request);
    facts.app = caller.app._id;
    const allowance = await deps.countRequest(caller.account);
    if (allowance !== undefined) {
      Object.assign(facts.headers, rateLimitHeaders(allowance));
      if (allowance.remaining < 0) {
        throw new ApiError('RATE_LIMIT_EXCEEDED', undefined, allowance.resetSeconds);
      }
    }
    return handle(incoming(request, await read(request, bodyBytes)), caller);
  }

  async function asDevice(
    request: Request,
    facts: Facts,
    handle: HandleDevice,
    bodyBytes: number | undefined,
  ): Promise<Answer> {
    facts.headers['access-control-allow-origin'] = '*';
    return handle(incoming(request, await read(request, bodyBytes)));
  }

  const device = (handle: HandleDevice, bodyBytes: number | undefined): RequestHandler =>
    run((request, facts) => asDevice(request, facts, handle, bodyBytes), toDeviceError);

  return {
    backend: ({ bodyBytes }, handle) =>
      run((request, facts) => asBackend(request, facts, bodyBytes, handle)),
    device: (handle) => device(handle, DEVICE_BODY_BYTES),
    deviceQuestion: (handle) => device(handle, undefined),
    either({ bodyBytes }, handle, handleDevice) {
      const backend = run((request, facts) => asBackend(request, facts, bodyBytes, handle));
      const asDevice = device(handleDevice, DEVICE_BODY_BYTES);
      return (request, response, next) =>
        (hasKey(request) ? backend : asDevice)(request, response, next);
    },
    refuse: (error) =>
      run(async () => {
        throw error();
      }),
  };
}

/** One line and one measurement a request, also when it fails. Never the URL: the key is in it. */
function createFinish({ log, metrics }: { log: Logger; metrics: Metrics }) {
  const durations = metrics.durations(
    'carillon_http_request_seconds',
    'Duration of HTTP requests',
    ['route', 'status'],
  );
  return (request: Request, response: Response, startedAt: number, facts: Facts): void => {
    const { id, app, code } = facts;
    const route = `${request.method} ${request.route?.path ?? 'none'}`;
    const seconds = (performance.now() - startedAt) / 1_000;
    durations.observe(seconds, { route, status: String(response.statusCode) });
    const ms = Math.round(seconds * 1e5) / 100;
    log.info({ route, status: response.statusCode, ms, id, app, code }, 'request');
  };
}

/** A device is never told that it is refused because something of ours failed (guarantee G15). */
function toDeviceError(thrown: unknown): ApiError {
  return thrown instanceof ApiError ? thrown : new ApiError('SERVICE_UNAVAILABLE');
}

function incoming(request: Request, body: Body): Incoming {
  return {
    params: request.params as Record<string, string>,
    body,
    // Only what asks for it pays for reading the proxies' headers.
    get address() {
      return request.ip ?? '';
    },
    header: (name) => request.get(name),
    query: (name) => {
      const value = request.query[name];
      if (value === undefined || typeof value === 'string') return value;
      throw new ApiError('INVALID_PARAM', `The parameter "${name}" is given more than once.`);
    },
  };
}
