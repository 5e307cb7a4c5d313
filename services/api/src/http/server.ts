import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Server as NetServer } from 'node:net';
import type { Duplex } from 'node:stream';
import { ApiError } from '@carillon/core/api-error';
import { PROCESS_CLOCK } from '@carillon/runtime/clock';
import type { ListenAddress } from '@carillon/runtime/env';
import { limitLinks } from '@carillon/runtime/link-limits';
import { http } from '@carillon/runtime/node-http';
import express, {
  type ErrorRequestHandler,
  type Request,
  type RequestHandler,
  type Response,
  type Router,
} from 'express';
import type { TickingClock } from './deadlines.ts';
import { closeAfterResponse, handleParserErrors, sendRawError } from './parser-errors.ts';
import { sendError, toApiError } from './response.ts';
import type { Routing } from './routing.ts';

/** Adds a feature's routes; any other method of their paths gets 405. */
export type RouteRegistrar = (router: Router) => void;

/** Maximum connections that the kernel queues while the process restarts or is busy. */
const LISTEN_BACKLOG = 4_096;
/** Time without bytes after which a connection has no request in flight, during shutdown. */
const IDLE_MS = 1_000;
const IDLE_CHECK_INTERVAL_MS = 100;
/** Delay of a check that shows a freeze of the machine, in which the clients could not send either. */
const FREEZE_MS = 100;
/** Maximum time by which freezes delay the end of idle connections. */
const MAX_IDLE_WAIT_MS = 5_000;
/** Maximum time for a request to arrive completely. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Maximum time for the headers of a request to arrive. */
const HEADERS_TIMEOUT_MS = 10_000;

/** Time for which an idle connection stays open. */
const KEEP_ALIVE_MS = 65_000;

/** Settings of the HTTP server. */
export interface ServerSettings {
  /** Number of own proxies in front, whose X-Forwarded-For is trusted; 0 by default. */
  proxyHops?: number;
  /** Is called before each request is routed. */
  onRequest?: (request: Request) => void;
  /** Time for a request to arrive completely; 30 s by default. */
  requestTimeoutMs?: number;
  /** Time for which an idle connection stays open; 65 s by default. */
  keepAliveMs?: number;
  /** Clock of the time that idle connections have during shutdown. */
  clock?: TickingClock;
}

/**
 * Starts the API's HTTP server. Express runs without etags, powered-by header and nested query parsing, for speed.
 *
 * @returns the port, and a function that stops accepting requests and waits for those in flight
 */
export async function serve(
  listen: ListenAddress,
  routing: Routing,
  features: readonly RouteRegistrar[],
  {
    proxyHops = 0,
    onRequest,
    requestTimeoutMs = REQUEST_TIMEOUT_MS,
    keepAliveMs = KEEP_ALIVE_MS,
    clock = PROCESS_CLOCK,
  }: ServerSettings = {},
): Promise<{ port: number; stop: () => Promise<void> }> {
  const app = createApp(routing, features, proxyHops);
  const links = limitLinks((request, response) => {
    if (isHostMissing(request)) return sendHostMissing(response);
    onRequest?.(request as Request);
    // Without this function Express creates one of its own for each request, which costs more.
    app(request as Request, response as Response, (error) =>
      sendError(response as Response, toApiError(error)),
    );
  });
  const server = http.createServer(
    {
      ...messageClasses(app),
      headersTimeout: Math.min(HEADERS_TIMEOUT_MS, requestTimeoutMs),
      requestTimeout: requestTimeoutMs,
      connectionsCheckingInterval: 1_000,
      // Node's own response to a missing Host header has no body; ours is JSON.
      requireHostHeader: false,
    },
    (request, response) => {
      lastResponses.set(request.socket, response);
      links.listener(request, response);
    },
  );
  links.watch(server);
  const lastResponses = trackLastResponses(server);
  handleParserErrors(server, lastResponses);
  server.keepAliveTimeout = keepAliveMs;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    // For a file descriptor Node reads the backlog only from this argument; its default is 511.
    server.listen(listen, LISTEN_BACKLOG, resolve);
  });
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    stop: () => stopGracefully(server, lastResponses, clock),
  };
}

/** Express with one router: each further layer costs every request some microseconds. */
function createApp(routing: Routing, features: readonly RouteRegistrar[], proxyHops: number) {
  const app = express();
  app.disable('x-powered-by').disable('etag');
  app.set('query parser', 'simple').set('trust proxy', proxyHops);
  for (const addRoutes of features) addRoutes(app.router);
  for (const [path, methods] of collectMethods(app.router)) {
    app.all(
      path,
      setAllowHeader(methods),
      routing.fail(() => new ApiError('METHOD_NOT_ALLOWED')),
    );
  }
  app.use(routing.fail(() => new ApiError('NOT_FOUND')));
  app.use(handleExpressError);
  return app;
}

/**
 * Returns the classes of which Node creates requests and responses. They have the prototypes of Express, which it would
 * otherwise set on every single object: that is slow, and so is code that then meets an object of another shape.
 */
function messageClasses(app: express.Express) {
  class ApiRequest extends http.IncomingMessage {}
  class ApiResponse extends http.ServerResponse {}
  Object.setPrototypeOf(ApiRequest.prototype, Reflect.get(app, 'request'));
  Object.setPrototypeOf(ApiResponse.prototype, Reflect.get(app, 'response'));
  Object.assign(app, { request: ApiRequest.prototype, response: ApiResponse.prototype });
  return { IncomingMessage: ApiRequest, ServerResponse: ApiResponse };
}

/** Checks for an HTTP/1.1 request without a Host header, which must be rejected (RFC 9112, 3.2). */
function isHostMissing({ headers, httpVersion }: IncomingMessage): boolean {
  return headers.host === undefined && httpVersion === '1.1';
}

function sendHostMissing(response: ServerResponse): void {
  sendRawError(response, new ApiError('INVALID_PARAM', 'The Host header is missing.'));
}

/** Returns each path with its methods. */
function collectMethods(router: Router): Map<string, Set<string>> {
  const methods = new Map<string, Set<string>>();
  for (const { route } of router.stack) {
    if (route === undefined) continue;
    const allowed = methods.get(route.path) ?? new Set();
    for (const { method } of route.stack) allowed.add(method.toUpperCase());
    methods.set(route.path, allowed);
  }
  return methods;
}

/** Sets the Allow header that a 405 must have (RFC 9110, 15.5.6). */
function setAllowHeader(methods: ReadonlySet<string>): RequestHandler {
  const header = [...methods].join(', ');
  return (_request, response, next) => {
    response.setHeader('allow', header);
    next();
  };
}

/** Returns the last response of each open connection; the listener of requests sets it. */
function trackLastResponses(server: Server): Map<Duplex, ServerResponse> {
  const lastResponses = new Map<Duplex, ServerResponse>();
  server.on('connection', (socket: Duplex) => {
    socket.once('close', () => lastResponses.delete(socket));
  });
  return lastResponses;
}

/**
 * Stops accepting connections and closes the kept-alive ones after their next response: a busy connection would keep
 * the process alive, and closing one at once could lose a request in flight (guarantee G17).
 */
async function stopGracefully(
  server: Server,
  lastResponses: ReadonlyMap<Duplex, ServerResponse>,
  clock: TickingClock,
): Promise<void> {
  const closed = once(server, 'close');
  for (const response of lastResponses.values()) closeAfterResponse(response);
  server.prependListener('request', (_request, response) => closeAfterResponse(response));
  // http.Server.close() would close idle connections at once.
  NetServer.prototype.close.call(server);
  const stopChecks = closeIdleConnections(server, clock);
  await closed;
  stopChecks();
}

/**
 * Closes the idle connections once the process has run for IDLE_MS without a freeze: what clients wrote before and
 * during a freeze arrives after it. Returns a function that stops the checks.
 */
function closeIdleConnections(server: Server, clock: TickingClock): () => void {
  const startedAt = clock.now();
  let undisturbedSince = startedAt;
  let checkedAt = startedAt;
  return clock.every(IDLE_CHECK_INTERVAL_MS, () => {
    const now = clock.now();
    if (now - checkedAt > IDLE_CHECK_INTERVAL_MS + FREEZE_MS) undisturbedSince = now;
    checkedAt = now;
    const isIdle = now - undisturbedSince >= IDLE_MS || now - startedAt >= MAX_IDLE_WAIT_MS;
    // Timers run before arrived requests are read; setImmediate lets those be read first.
    if (isIdle) setImmediate(() => server.closeIdleConnections());
  });
}

/** Responds to a request that Express itself can't parse, for instance with an invalid percent escape. */
const handleExpressError: ErrorRequestHandler = (_error, _request, response, _next) => {
  sendError(response, new ApiError('INVALID_PARAM', 'The request is malformed.'));
};
