import { readFileSync } from 'node:fs';
import type { RequestHandler } from 'express';
import type { Routes } from '../http/server.ts';
import { OPERATIONS, openApiDocument } from './document.ts';
import { referencePage } from './page.ts';

/** The page loads its own style sheet and nothing else; no script runs on it. */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/**
 * The reference: `/openapi.json` and, for people, `/docs`. Neither needs a key.
 *
 * @param version of the product
 */
export function referenceRoutes(version: string): Routes {
  const style = readFileSync(new URL('style.css', import.meta.url), 'utf8');
  return (router) => {
    router.get(
      '/openapi.json',
      always('application/json', JSON.stringify(openApiDocument(version))),
    );
    router.get('/docs', always('text/html', referencePage(OPERATIONS, version)));
    router.get('/docs/style.css', always('text/css', style));
  };
}

function always(type: string, text: string): RequestHandler {
  const headers = {
    'content-type': `${type}; charset=utf-8`,
    'content-security-policy': CONTENT_SECURITY_POLICY,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'public, max-age=300',
  };
  return (_request, response) => {
    response.writeHead(200, headers).end(text);
  };
}
