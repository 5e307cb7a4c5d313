import { once } from 'node:events';
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { Server as NetServer } from 'node:net';
import { ApiError } from '@carillon/core/api-error';
import type { Listen } from '@carillon/runtime/env';
import express, { type ErrorRequestHandler, type RequestHandler, type Router } from 'express';
import { sendError } from './answer.ts';
import { answerMalformed, answerPlainly } from './malformed.ts';
import type { Routing } from './route.ts';

/** Adds a feature's paths and methods; every other method of such a path gets 405. */
export type Routes = (router: Router) => void;

/** Connections that wait while the process restarts or is busy. */
const BACKLOG = 4_096;
/** Connections that are silent for so long have no request on its way. */
const IDLE_MS = 1_000;

/**
 * Serves the API. Express is kept lean: no etag, no powered-by header, no query parser of depth.
 *
 * @param proxyHops how many proxies of ours stand in front and name the client's address
 * @returns the port, and a stop that takes no more requests and waits for those under way
 */
export async function serve(
  listen: Listen,
  routing: Routing,
  features: readonly Routes[],
  proxyHops = 0,
): Promise<{ port: number; stop: () => Promise<void> }> {
  const server = createServer(
    {
      headersTimeout: 10_000,
      requestTimeout: 30_000,
      connectionsCheckingInterval: 1_000,
      // Node's own answer to a missing one would have no body.
      requireHostHeader: false,
    },
    needHost(createApp(routing, features, proxyHops)),
  );
  answerMalformed(server);
  server.keepAliveTimeout = 65_000;
  const underWay = watchAnswers(server);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    // With a descriptor Node takes the backlog from nowhere but its own argument, and 511 without it.
    server.listen(listen, BACKLOG, resolve);
  });
  const bound = server.address();
  return {
    port: typeof bound === 'object' && bound !== null ? bound.port : 0,
    stop: () => stopGently(server, underWay),
  };
}

function createApp(
  routing: Routing,
  features: readonly Routes[],
  proxyHops: number,
): RequestListener {
  const app = express();
  app.disable('x-powered-by').disable('etag');
  app.set('query parser', 'simple').set('trust proxy', proxyHops);
  const router = express.Router();
  for (const addTo of features) addTo(router);
  for (const [path, methods] of methodsOf(router)) {
    router.all(
      path,
      allow(methods),
      routing.refuse(() => new ApiError('METHOD_NOT_ALLOWED')),
    );
  }
  app.use(router);
  app.use(routing.refuse(() => new ApiError('NOT_FOUND')));
  app.use(refuseMalformed);
  return app;
}

/** RFC 9112, 3.2: HTTP/1.1 without a host is a bad request. */
function needHost(app: RequestListener): RequestListener {
  return (request, response) => {
    if (request.headers.host !== undefined || request.httpVersion !== '1.1') {
      return app(request, response);
    }
    answerPlainly(response, new ApiError('INVALID_PARAM', 'The Host header is missing.'));
  };
}

/** Each path with the methods it answers. */
function methodsOf(router: Router): Map<string, Set<string>> {
  const methods = new Map<string, Set<string>>();
  for (const { route } of router.stack) {
    if (route === undefined) continue;
    const known = methods.get(route.path) ?? new Set();
    for (const { method } of route.stack) known.add(method.toUpperCase());
    methods.set(route.path, known);
  }
  return methods;
}

/** RFC 9110, 15.5.6: a 405 says what is allowed. */
function allow(methods: ReadonlySet<string>): RequestHandler {
  const header = [...methods].join(', ');
  return (_request, response, next) => {
    response.setHeader('allow', header);
    next();
  };
}

/** The answers that are not yet given. */
function watchAnswers(server: Server): ReadonlySet<ServerResponse> {
  const underWay = new Set<ServerResponse>();
  server.prependListener('request', (_request, response) => {
    underWay.add(response);
    response.once('close', () => underWay.delete(response));
  });
  return underWay;
}

/**
 * Takes no more connections, and asks clients off those they keep with their next answer: a busy one would keep
 * the process alive, and one that was cut might have a request on its way (guarantee G17).
 */
async function stopGently(server: Server, underWay: ReadonlySet<ServerResponse>): Promise<void> {
  const closed = once(server, 'close');
  const askOff = (response: ServerResponse): void => {
    if (!response.headersSent) response.setHeader('connection', 'close');
  };
  for (const response of underWay) askOff(response);
  server.prependListener('request', (_request, response) => askOff(response));
  // HTTP's own close would cut idle connections at once.
  NetServer.prototype.close.call(server);
  // A process that stood still meets its timers before the requests that came meanwhile: those are read first.
  const cutSilent = (): void => void setImmediate(() => server.closeIdleConnections());
  const timer = setInterval(cutSilent, IDLE_MS);
  await closed;
  clearInterval(timer);
}

/** What Express itself can't read, for instance a path with a broken percent escape. */
const refuseMalformed: ErrorRequestHandler = (_error, _request, response, _next) => {
  sendError(response, new ApiError('INVALID_PARAM', 'The request is malformed.'));
};
