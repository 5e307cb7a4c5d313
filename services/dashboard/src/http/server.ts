import { once } from 'node:events';
import type { ListenAddress } from '@carillon/runtime/env';
import { limitLinks } from '@carillon/runtime/link-limits';
import { http } from '@carillon/runtime/node-http';
import express, { type ErrorRequestHandler, type RequestHandler, type Router } from 'express';
import type { ConsoleAddress } from './address.ts';

/** Time for open responses to end when the process stops. */
const STOP_TIMEOUT_MS = 5_000;
/** Time for a request and for its headers to arrive completely, in ms, as at the API. */
export const REQUEST_TIMEOUTS = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 1_000,
};
/** Content security policy of the console's pages. */
export const CONTENT_SECURITY_POLICY = [
  "default-src 'self'",
  "script-src 'self'",
  // The component library sets styles of single elements.
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ');

/** Parts of the console's server. */
export interface ServerParts {
  address: ConsoleAddress;
  api: Router;
  /** Tried in this order. */
  pages: RequestHandler | RequestHandler[];
  /** Number of own proxies in front, whose X-Forwarded-For is trusted. */
  proxyHops: number;
  timeouts?: typeof REQUEST_TIMEOUTS;
}

/**
 * Starts the console's HTTP server.
 *
 * @returns the port, and a function that stops it; streams must have been closed before
 */
export async function serveConsole(
  listen: ListenAddress,
  { address, api, pages, proxyHops, timeouts = REQUEST_TIMEOUTS }: ServerParts,
): Promise<{ port: number; stop: () => Promise<void> }> {
  const app = express();
  app.disable('x-powered-by').disable('etag');
  app.set('query parser', 'simple').set('trust proxy', proxyHops);
  app.use(setSecurityHeaders, requireTls(address), requireAllowedHost(address));
  app.use('/api', api);
  app.use(pages);
  app.use(handleExpressError);
  const links = limitLinks(app);
  const server = http.createServer(timeouts, links.listener);
  links.watch(server);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(listen, resolve);
  });
  const bound = server.address();
  return {
    port: typeof bound === 'object' && bound !== null ? bound.port : 0,
    async stop() {
      const closed = once(server, 'close');
      server.close();
      const timer = setTimeout(() => server.closeAllConnections(), STOP_TIMEOUT_MS);
      await closed;
      clearTimeout(timer);
    },
  };
}

const setSecurityHeaders: RequestHandler = (_request, response, next) => {
  response.setHeader('content-security-policy', CONTENT_SECURITY_POLICY);
  response.setHeader('x-content-type-options', 'nosniff');
  response.setHeader('x-frame-options', 'DENY');
  response.setHeader('referrer-policy', 'same-origin');
  response.setHeader('cross-origin-resource-policy', 'same-origin');
  next();
};

/** Has browsers use TLS alone from then on, where CONSOLE_URL has it; they ignore the header without TLS (RFC 6797, 8.1). */
function requireTls({ isSecure }: ConsoleAddress): RequestHandler {
  return (_request, response, next) => {
    if (isSecure) response.setHeader('strict-transport-security', 'max-age=31536000');
    next();
  };
}

/** Refuses host names that are not the console's: a foreign page could have its own name resolve to this address. */
function requireAllowedHost({ isAllowedHost }: ConsoleAddress): RequestHandler {
  return (request, response, next) => {
    if (isAllowedHost(request.headers.host ?? '')) return next();
    const error =
      'The console does not know this host name. Set CONSOLE_URL to its address, or open it by its IP address.';
    // RFC 9110, 15.5.20.
    response
      .writeHead(421, { 'content-type': 'application/json; charset=utf-8', connection: 'close' })
      .end(JSON.stringify({ code: 'WRONG_HOST', error }));
  };
}

/** Responds to a request that Express itself can't parse, for instance with an invalid percent escape. */
const handleExpressError: ErrorRequestHandler = (_error, _request, response, _next) => {
  if (response.headersSent) return void response.destroy();
  response
    .writeHead(400, { 'content-type': 'application/json; charset=utf-8' })
    .end(JSON.stringify({ code: 'INVALID_PARAM', error: 'The request is malformed.' }));
};
