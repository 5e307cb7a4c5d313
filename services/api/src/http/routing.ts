import { randomUUID } from 'node:crypto';
import { ApiError } from '@carillon/core/api-error';
import { type JsonBody, parseJsonObject } from '@carillon/core/json-text';
import { LIMITS } from '@carillon/core/limits';
import type { RateLimitStatus } from '@carillon/presence/request-limit';
import type { Logger } from '@carillon/runtime/logger';
import type { Metrics } from '@carillon/runtime/metrics';
import type { AccountDocument } from '@carillon/store/documents';
import type { Request, RequestHandler, Response } from 'express';
import { type Caller, hasApiKey } from './authenticate.ts';
import { createDeadlines, type Deadline, DeadlineExceededError } from './deadlines.ts';
import type { ReadBody } from './read-body.ts';
import {
  type ResponseBody,
  type ResponseHeaders,
  rateLimitHeaders,
  StreamedBody,
  sendError,
  sendResponse,
  toApiError,
} from './response.ts';

/** Data of a request that a handler reads. */
export interface RequestContext {
  params: Record<string, string>;
  body: JsonBody;
  /** The client's address. */
  address: string;
  /** When the request's header arrived, by the monotonic clock (`performance.now()`). */
  startedAt: number;
  header(name: string): string | undefined;
  /** Returns a query parameter. @throws ApiError INVALID_PARAM if it is given more than once */
  query(name: string): string | undefined;
  /** Adds fields to the request's log line. */
  addLogFields(fields: Pick<RequestFacts, 'push'>): void;
}

type Handler = (
  context: RequestContext,
  caller: Caller,
  /** Checks the caller's key again. @throws ApiError as the first check */
  recheck: () => Promise<unknown>,
) => Promise<ResponseBody>;
type DeviceHandler = (context: RequestContext) => Promise<ResponseBody>;

/** Wraps handlers into Express's form: authentication, body, one response, one log line. */
export type Routing = ReturnType<typeof createRouting>;

/** Data for a request's log line and response. */
interface RequestFacts {
  id: string;
  startedAt: number;
  app?: string;
  account?: string;
  code?: string;
  /** The invalid parameter. */
  param?: string;
  /** The accepted push. */
  push?: string;
  headers: ResponseHeaders;
  deadline: Deadline;
}

const EMPTY_BODY: JsonBody = { value: {}, text: '{}' };
/** Nesting of a whole request: that of the payload and of the object around it. */
const MAX_BODY_DEPTH = LIMITS.payloadDepth + 1;
const MAX_DEVICE_BODY_BYTES = 16 * 1024;
/** Time to respond, without the time to receive the body; with the network and a late tick under 3 s (guarantee G15). */
const RESPONSE_TIMEOUT_MS = 2_700;

/** Settings of the routing. `authenticate` and `countRequest` have a second implementation in the tests of the edge. */
interface RoutingOptions {
  log: Logger;
  metrics: Metrics;
  authenticate: (request: Request) => Promise<Caller>;
  /** Counts a request of an account; undefined if the account has no limit. */
  countRequest: (account: AccountDocument) => Promise<RateLimitStatus | undefined>;
  readBody: ReadBody<Request>;
  /** Called with every error that is not an ApiError, and with the request's path. */
  onUnexpectedError: (error: unknown, path: string) => void;
}

/** Creates the routing of a process. */
export function createRouting(options: RoutingOptions) {
  const runHandler = createRunner(options);
  const { handleWithApiKey, handleDeviceRequest } = createRequestHandlers(options);

  const wrapDeviceHandler = (
    handler: DeviceHandler,
    maxBodyBytes: number | undefined,
  ): RequestHandler =>
    runHandler(
      (request, facts) => handleDeviceRequest(request, facts, handler, maxBodyBytes),
      toDeviceError,
    );

  return {
    /**
     * Wraps a handler for the owner of an API key.
     *
     * @param route.extraMs returns how much longer than others such a request may take
     */
    withApiKey: (
      route: { maxBodyBytes?: number; extraMs?: (body: JsonBody) => number },
      handler: Handler,
    ): RequestHandler =>
      runHandler((request, facts) => handleWithApiKey(request, facts, route, handler)),
    /**
     * Wraps a handler for devices, which authenticate in the body. An unexpected error gives 503: a device that is
     * rejected registers again. Pages of any origin may call it, because no API key and no cookie is involved.
     */
    withDeviceAuth: (handler: DeviceHandler): RequestHandler =>
      wrapDeviceHandler(handler, MAX_DEVICE_BODY_BYTES),
    /** Wraps a handler for a request without a body that needs no authentication. */
    publicGet: (handler: DeviceHandler): RequestHandler => wrapDeviceHandler(handler, undefined),
    /** Wraps two handlers: a request with an API key goes to the first one. */
    apiKeyOrDevice(
      route: { maxBodyBytes: number },
      handler: Handler,
      deviceHandler: DeviceHandler,
    ): RequestHandler {
      const apiKeyRoute = runHandler((request, facts) =>
        handleWithApiKey(request, facts, route, handler),
      );
      const deviceRoute = wrapDeviceHandler(deviceHandler, MAX_DEVICE_BODY_BYTES);
      return (request, response, next) =>
        (hasApiKey(request) ? apiKeyRoute : deviceRoute)(request, response, next);
    },
    /** Creates a handler that responds with an error. */
    fail: (error: () => ApiError): RequestHandler =>
      runHandler(async () => {
        throw error();
      }),
  };
}

/** Creates the functions that authenticate a request, read its body and call its handler. */
function createRequestHandlers(
  options: Pick<RoutingOptions, 'authenticate' | 'countRequest' | 'readBody'>,
) {
  /** Reads and parses the body. The deadline is paused meanwhile: the client's upload time does not count. */
  async function readRequestBody(
    request: Request,
    { deadline, account }: RequestFacts,
    limit: number | undefined,
    extraMs?: (body: JsonBody) => number,
  ): Promise<JsonBody> {
    if (limit === undefined && extraMs === undefined) return EMPTY_BODY;
    deadline.pause();
    if (limit === undefined) {
      deadline.resume(extraMs?.(EMPTY_BODY));
      return EMPTY_BODY;
    }
    const text = await options.readBody(request, limit, {
      account,
      address: () => request.ip ?? '',
    });
    const body = { value: parseJsonObject(text, MAX_BODY_DEPTH), text };
    deadline.resume(extraMs?.(body));
    return body;
  }

  async function handleWithApiKey(
    request: Request,
    facts: RequestFacts,
    { maxBodyBytes, extraMs }: { maxBodyBytes?: number; extraMs?: (body: JsonBody) => number },
    handler: Handler,
  ): Promise<ResponseBody> {
    const caller = await options.authenticate(request);
    facts.app = caller.app._id;
    facts.account = caller.account._id;
    const rateLimit = await options.countRequest(caller.account);
    if (rateLimit !== undefined) {
      Object.assign(facts.headers, rateLimitHeaders(rateLimit));
      if (rateLimit.remaining < 0) {
        throw new ApiError('RATE_LIMIT_EXCEEDED', undefined, rateLimit.resetSeconds);
      }
    }
    const body = await readRequestBody(request, facts, maxBodyBytes, extraMs);
    return handler(createRequestContext(request, body, facts), caller, () =>
      options.authenticate(request),
    );
  }

  async function handleDeviceRequest(
    request: Request,
    facts: RequestFacts,
    handler: DeviceHandler,
    maxBodyBytes: number | undefined,
  ): Promise<ResponseBody> {
    facts.headers['access-control-allow-origin'] = '*';
    return handler(
      createRequestContext(request, await readRequestBody(request, facts, maxBodyBytes), facts),
    );
  }

  return { handleWithApiKey, handleDeviceRequest };
}

/**
 * Creates the function that runs handlers. Each request gets one response: the handler's, or an error if the deadline
 * passes first. A result after the deadline is discarded.
 */
function createRunner({
  log,
  metrics,
  onUnexpectedError,
}: Pick<RoutingOptions, 'log' | 'metrics' | 'onUnexpectedError'>) {
  const recordRequest = createRequestRecorder(log, metrics);
  const startDeadline = createDeadlines();

  function startRequest(
    request: Request,
    response: Response,
    onFailure: (error: unknown) => ApiError,
  ) {
    const startedAt = performance.now();
    const id = randomUUID();
    let hasResponded = false;
    const respondOnce = (send: () => void): boolean => {
      if (hasResponded) return false;
      send();
      hasResponded = true;
      facts.deadline.end();
      recordRequest(request, response, startedAt, facts);
      return true;
    };
    const fail = (thrown: unknown): void =>
      void respondOnce(() => {
        const error = onFailure(thrown);
        Object.assign(facts, { code: error.code, param: error.parameter });
        if (!(thrown instanceof ApiError)) {
          onUnexpectedError(thrown, request.path);
          log.error({ id, err: thrown }, 'request failed');
        }
        sendError(response, error, facts.headers);
      });
    const deadline = startDeadline(RESPONSE_TIMEOUT_MS, () =>
      fail(new DeadlineExceededError(`no response within ${RESPONSE_TIMEOUT_MS} ms`)),
    );
    const facts: RequestFacts = { id, startedAt, headers: { 'x-request-id': id }, deadline };
    return { facts, respondOnce, fail };
  }

  return (
    handler: (request: Request, facts: RequestFacts) => Promise<ResponseBody>,
    onFailure: (error: unknown) => ApiError = toApiError,
  ): RequestHandler =>
    async (request, response) => {
      const { facts, respondOnce, fail } = startRequest(request, response, onFailure);
      try {
        const body = await handler(request, facts);
        const isSent = respondOnce(() => sendResponse(response, body, facts.headers));
        if (!isSent && body instanceof StreamedBody) body.onEnd();
      } catch (thrown) {
        fail(thrown);
      }
    };
}

/** Creates the function that writes one log line and one measurement per request. Never logs the URL: it may hold the key. */
function createRequestRecorder(log: Logger, metrics: Metrics) {
  const durations = metrics.createHistogram('carillon_http_request_seconds');
  return (request: Request, response: Response, startedAt: number, facts: RequestFacts): void => {
    const { id, app, code, param, push } = facts;
    // The path's template, and no method of a request without a route: a client chooses neither.
    const route = request.route === undefined ? 'none' : `${request.method} ${request.route.path}`;
    const seconds = (performance.now() - startedAt) / 1_000;
    durations.observe(seconds, { route, status: String(response.statusCode) });
    const ms = Math.round(seconds * 1e5) / 100;
    log.info({ route, status: response.statusCode, ms, id, app, push, code, param }, 'request');
  };
}

/** Maps an unexpected error to 503, so that a device does not take it for a rejection (guarantee G15). */
function toDeviceError(thrown: unknown): ApiError {
  return thrown instanceof ApiError ? thrown : new ApiError('SERVICE_UNAVAILABLE');
}

function createRequestContext(
  request: Request,
  body: JsonBody,
  facts: RequestFacts,
): RequestContext {
  return {
    params: request.params as Record<string, string>,
    body,
    startedAt: facts.startedAt,
    // Lazy, because parsing the proxies' headers costs time and few handlers need it.
    get address() {
      return request.ip ?? '';
    },
    header: (name) => request.get(name),
    addLogFields: (fields) => void Object.assign(facts, fields),
    query: (name) => {
      const value = request.query[name];
      if (value === undefined || typeof value === 'string') return value;
      throw new ApiError('INVALID_PARAM', `The parameter "${name}" is given more than once.`);
    },
  };
}
