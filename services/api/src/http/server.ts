import { createServer } from 'node:http';
import { ApiError } from '@carillon/core/api-error';
import type { Listen } from '@carillon/runtime/env';
import express, { type ErrorRequestHandler, type Router } from 'express';
import { sendError } from './answer.ts';
import type { Routing } from './route.ts';

/** Adds a feature's paths and methods; every other method of such a path gets 405. */
export type Routes = (router: Router) => void;

/** Connections that wait while the process restarts or is busy. */
const BACKLOG = 4_096;

/**
 * Serves the API. Express is kept lean: no etag, no powered-by header, no query parser of depth.
 *
 * @returns the port, and a stop that takes no more requests and waits for those under way
 */
export async function serve(
  listen: Listen,
  routing: Routing,
  features: readonly Routes[],
): Promise<{ port: number; stop: () => Promise<void> }> {
  const app = express();
  app.disable('x-powered-by').disable('etag').set('query parser', 'simple');
  const router = express.Router();
  for (const addTo of features) addTo(router);
  const paths = new Set(router.stack.flatMap((layer) => layer.route?.path ?? []));
  for (const path of paths) {
    router.all(
      path,
      routing.refuse(() => new ApiError('METHOD_NOT_ALLOWED')),
    );
  }
  app.use(router);
  app.use(routing.refuse(() => new ApiError('NOT_FOUND')));
  app.use(refuseMalformed);

  const server = createServer(
    { headersTimeout: 10_000, requestTimeout: 30_000, connectionsCheckingInterval: 1_000 },
    app,
  );
  server.keepAliveTimeout = 65_000;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ ...listen, backlog: BACKLOG }, resolve);
  });
  const bound = server.address();
  return {
    port: typeof bound === 'object' && bound !== null ? bound.port : 0,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
      }),
  };
}

/** What Express itself can't read, for instance a path with a broken percent escape. */
const refuseMalformed: ErrorRequestHandler = (_error, _request, response, _next) => {
  sendError(response, new ApiError('INVALID_PARAM', 'The request is malformed.'));
};
