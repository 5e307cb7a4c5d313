import { randomUUID } from 'node:crypto';
import { ApiError } from '@carillon/core/api-error';
import { type JsonBody, parseJsonObject } from '@carillon/core/json-text';
import { LIMITS } from '@carillon/core/limits';
import type { RateLimitStatus } from '@carillon/presence/request-limit';
import type { Logger } from '@carillon/runtime/logger';
import type { Metrics } from '@carillon/runtime/metrics';
import type { ReadBody } from '@carillon/runtime/read-body';
import type { AccountDocument } from '@carillon/store/documents';
import type { Request, RequestHandler, Response } from 'express';
import { createAdmission } from './admission.ts';
import { type Caller, hasApiKey } from './authenticate.ts';
import {
  createDeadlines,
  type Deadline,
  DeadlineExceededError,
  type TickingClock,
} from './deadlines.ts';
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
  /** Time at which the request's header arrived, by the monotonic clock (`performance.now()`). */
  startedAt: number;
  /** @throws DeadlineExceededError once the response is sent: the rest of the work would have no client */
  assertAwaited(): void;
  /** Reports that MongoDB responds: if the time limit passes nevertheless, the response is 503 and not 500. */
  noteProgress(): void;
  header(name: string): string | undefined;
  /** Returns a query parameter. @throws ApiError INVALID_PARAM if it is given more than once */
  query(name: string): string | undefined;
  /** Adds fields to the request's log line. */
  addLogFields(fields: Pick<OpenRequest, 'push'>): void;
}

type Handler = (
  context: RequestContext,
  caller: Caller,
  /** Checks the caller's key again. @throws ApiError as the first check */
  recheck: () => Promise<unknown>,
) => Promise<ResponseBody>;
interface ApiKeyRoute {
  maxBodyBytes?: number;
  /** Returns how much longer than others a request may take. */
  extraMs?: (body: JsonBody) => number;
  /** Checks whether a request is long work, for which the handler has turns: its duration does not show an overload. */
  isLarge?: (body: JsonBody) => boolean;
}
type DeviceHandler = (context: RequestContext) => Promise<ResponseBody>;

/** Wraps handlers into Express's form: authentication, body, one response, one log line. */
export type Routing = ReturnType<typeof createRouting>;

/** A request, and the data for its response and log line. */
interface OpenRequest {
  request: Request;
  response: Response;
  id: string;
  startedAt: number;
  hasResponded: boolean;
  /** The whole body was read; the parser may not have reported its end yet. */
  isBodyReceived: boolean;
  app?: string;
  account?: string;
  code?: string;
  /** The invalid parameter. */
  param?: string | undefined;
  /** The accepted push. */
  push?: string;
  headers: ResponseHeaders;
  deadline?: Deadline;
  /** MongoDB has answered a part of the work, so the cause of a late response is load. */
  hasProgress?: boolean;
  /** Converts what the handler threw to the error of the response. */
  toError: (thrown: unknown) => ApiError;
}

const EMPTY_BODY: JsonBody = { value: {}, text: '{}' };
/** Maximum nesting of a request: that of the payload and of the object around it. */
const MAX_BODY_DEPTH = LIMITS.payloadDepth + 1;
const MAX_DEVICE_BODY_BYTES = 16 * 1024;
/**
 * Maximum time to respond, without the time to receive the body; with the network and a late tick under 3 s (guarantee
 * G15).
 */
export const RESPONSE_TIMEOUT_MS = 2_700;

/** Settings of the routing. `authenticate` and `countRequest` have a second implementation in the tests of the edge. */
interface RoutingOptions {
  log: Logger;
  metrics: Metrics;
  authenticate: (request: Request) => Caller | Promise<Caller>;
  /** Counts a request of an account; undefined if the account has no limit. */
  countRequest: (account: AccountDocument) => Promise<RateLimitStatus | undefined> | undefined;
  readBody: ReadBody<Request>;
  /** Called with every error that is not an ApiError. */
  onUnexpectedError: (error: unknown) => void;
  /** Called when a request with an API key has become slow. */
  onSlowRequest?: (() => void) | undefined;
  /** Called with every response. */
  onResponse?: (() => void) | undefined;
  /** Clock of the time limits. */
  clock?: TickingClock;
}

/** Creates the routing of a process. */
export function createRouting(options: RoutingOptions) {
  const runHandler = createRunner(options);
  const { handleWithApiKey, handleDeviceRequest } = createRequestHandlers(
    options,
    createAdmission(options.onSlowRequest, options.clock),
  );

  const wrapDeviceHandler = (
    handler: DeviceHandler,
    maxBodyBytes: number | undefined,
  ): RequestHandler =>
    runHandler((open) => handleDeviceRequest(open, handler, maxBodyBytes), toDeviceError);

  return {
    /** Wraps a handler for the owner of an API key. */
    withApiKey: (route: ApiKeyRoute, handler: Handler): RequestHandler =>
      runHandler((open) => handleWithApiKey(open, route, handler)),
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
      const apiKeyRoute = runHandler((open) => handleWithApiKey(open, route, handler));
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
  admit: ReturnType<typeof createAdmission>,
) {
  /** Reads and parses the body. The deadline is paused meanwhile: the client's upload time does not count. */
  async function readRequestBody(
    open: OpenRequest,
    limit: number | undefined,
    extraMs?: (body: JsonBody) => number,
  ): Promise<JsonBody> {
    if (limit === undefined && extraMs === undefined) return EMPTY_BODY;
    open.deadline?.pause();
    if (limit === undefined) {
      open.deadline?.resume(extraMs?.(EMPTY_BODY));
      return EMPTY_BODY;
    }
    const text = await options.readBody(open.request, limit, {
      account: open.account,
      address: () => open.request.ip ?? '',
    });
    open.isBodyReceived = true;
    const body = { value: parseJsonObject(text, MAX_BODY_DEPTH), text };
    open.deadline?.resume(extraMs?.(body));
    return body;
  }

  async function handleWithApiKey(
    open: OpenRequest,
    { maxBodyBytes, extraMs, isLarge }: ApiKeyRoute,
    handler: Handler,
  ): Promise<ResponseBody> {
    // Even for a known caller this waits until the parser has read a body that came with the head.
    const caller = await options.authenticate(open.request);
    open.app = caller.app._id;
    open.account = caller.account._id;
    const counting = options.countRequest(caller.account);
    const rateLimit = counting && (await counting);
    if (rateLimit !== undefined) {
      Object.assign(open.headers, rateLimitHeaders(rateLimit));
      if (rateLimit.remaining < 0) {
        throw new ApiError('RATE_LIMIT_EXCEEDED', undefined, rateLimit.resetSeconds);
      }
    }
    const body = await readRequestBody(open, maxBodyBytes, extraMs);
    const recheck = async () => options.authenticate(open.request);
    const handle = () => handler(new OpenRequestContext(open, body), caller, recheck);
    return isLarge?.(body) ? handle() : await admit(caller.account._id, body.text.length, handle);
  }

  async function handleDeviceRequest(
    open: OpenRequest,
    handler: DeviceHandler,
    maxBodyBytes: number | undefined,
  ): Promise<ResponseBody> {
    open.headers['access-control-allow-origin'] = '*';
    const body = await readRequestBody(open, maxBodyBytes);
    return handler(new OpenRequestContext(open, body));
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
  onResponse,
  clock,
}: Pick<RoutingOptions, 'log' | 'metrics' | 'onUnexpectedError' | 'onResponse' | 'clock'>) {
  const recordRequest = createRequestRecorder(log, metrics);
  const startDeadline = createDeadlines<OpenRequest>(
    (open) =>
      fail(
        open,
        open.hasProgress
          ? new ApiError('SERVICE_UNAVAILABLE')
          : new DeadlineExceededError(`no response within ${RESPONSE_TIMEOUT_MS} ms`),
      ),
    clock,
  );

  function conclude(open: OpenRequest): void {
    open.hasResponded = true;
    open.deadline?.end();
    onResponse?.();
    recordRequest(open);
  }

  function succeed(open: OpenRequest, body: ResponseBody): void {
    if (open.hasResponded) {
      if (body instanceof StreamedBody) body.onEnd();
      return;
    }
    sendResponse(open.response, body, open.headers);
    conclude(open);
  }

  function fail(open: OpenRequest, thrown: unknown): void {
    if (open.hasResponded) return;
    const error = open.toError(thrown);
    open.code = error.code;
    open.param = error.parameter;
    if (!(thrown instanceof ApiError)) {
      onUnexpectedError(thrown);
      log.error({ id: open.id, err: thrown }, 'request failed');
    }
    const isBodyReceived = open.isBodyReceived || open.request.complete;
    sendError(open.response, error, open.headers, isBodyReceived);
    conclude(open);
  }

  return (
    handler: (open: OpenRequest) => Promise<ResponseBody>,
    toError: (error: unknown) => ApiError = toApiError,
  ): RequestHandler =>
    async (request, response) => {
      const id = randomUUID();
      const open: OpenRequest = {
        request,
        response,
        id,
        startedAt: performance.now(),
        hasResponded: false,
        isBodyReceived: false,
        headers: { 'x-request-id': id },
        toError,
      };
      open.deadline = startDeadline(RESPONSE_TIMEOUT_MS, open);
      try {
        succeed(open, await handler(open));
      } catch (thrown) {
        fail(open, thrown);
      }
    };
}

/** Creates the function that writes one log line and one measurement per request. Never logs the URL: it may hold the key. */
function createRequestRecorder(log: Logger, metrics: Metrics) {
  const durations = metrics.createHistogram('carillon_http_request_seconds');
  return ({ request, response, startedAt, id, app, code, param, push }: OpenRequest): void => {
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

/** A class, because an object with an accessor of its own gets a shape of its own, and code that meets many is slow. */
class OpenRequestContext implements RequestContext {
  readonly params: Record<string, string>;
  readonly body: JsonBody;
  readonly startedAt: number;
  readonly #open: OpenRequest;
  // Handlers take these functions out of the context.
  readonly header = (name: string): string | undefined => this.#open.request.get(name);
  readonly addLogFields = (fields: Pick<OpenRequest, 'push'>): void =>
    void Object.assign(this.#open, fields);
  readonly assertAwaited = (): void => {
    if (this.#open.hasResponded) throw new DeadlineExceededError('the client has its response');
  };
  readonly noteProgress = (): void => {
    this.#open.hasProgress = true;
  };
  readonly query = (name: string): string | undefined => {
    const value = this.#open.request.query[name];
    if (value === undefined || typeof value === 'string') return value;
    throw new ApiError('INVALID_PARAM', `The parameter "${name}" is given more than once.`);
  };

  constructor(open: OpenRequest, body: JsonBody) {
    this.#open = open;
    this.params = open.request.params as Record<string, string>;
    this.body = body;
    this.startedAt = open.startedAt;
  }

  /** Lazy, because parsing the proxies' headers costs time and few handlers need it. */
  get address(): string {
    return this.#open.request.ip ?? '';
  }
}
