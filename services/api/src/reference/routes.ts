import { readFileSync } from 'node:fs';
import type { Request, RequestHandler } from 'express';
import type { RouteRegistrar } from '../http/server.ts';
import { createOpenApiDocument, OPERATIONS } from './document.ts';
import { renderReferencePage } from './page.ts';

/** The page loads its own style sheet and nothing else; no script runs on it. */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Placeholder for the server's address, which is replaced in each response. */
const ADDRESS_PLACEHOLDER = 'https://server.invalid';
/** Matches a name, an IPv4 address or a bracketed IPv6 address, with or without a port. */
const HOST_PATTERN = /^(?:[\w.-]{1,253}|\[[\da-f:.]{2,45}\])(?::\d{1,5})?$/i;

/**
 * Registers the reference: `/openapi.json` and `/docs`. Neither needs a key.
 *
 * @param version of the product
 */
export function referenceRoutes(version: string): RouteRegistrar {
  const style = readFileSync(new URL('style.css', import.meta.url), 'utf8');
  return (router) => {
    router.get('/openapi.json', serveOpenApi(version));
    const page = renderReferencePage(OPERATIONS, version);
    router.get(
      '/docs',
      serveText('text/html', () => page),
    );
    router.get(
      '/docs/style.css',
      serveText('text/css', () => style),
    );
  };
}

/** Serves the OpenAPI document. It is rendered once; only the server's address is replaced per request. */
function serveOpenApi(version: string): RequestHandler {
  const [before = '', after = ''] = JSON.stringify(
    createOpenApiDocument(version, ADDRESS_PLACEHOLDER),
  ).split(JSON.stringify(ADDRESS_PLACEHOLDER));
  return serveText(
    'application/json',
    (request) => before + JSON.stringify(getServerAddress(request)) + after,
  );
}

/** Returns the URL by which the client reached the server: no other is known to work for the client. */
function getServerAddress(request: Request): string {
  const { host = '' } = request.headers;
  return HOST_PATTERN.test(host) ? `${request.protocol}://${host}` : '/';
}

function serveText(type: string, renderText: (request: Request) => string): RequestHandler {
  const headers = {
    'content-type': `${type}; charset=utf-8`,
    'content-security-policy': CONTENT_SECURITY_POLICY,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'public, max-age=300',
  };
  return (request, response) => {
    response.writeHead(200, headers).end(renderText(request));
  };
}
