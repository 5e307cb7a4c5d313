import { readFileSync } from 'node:fs';
import type { Request, RequestHandler } from 'express';
import type { RouteRegistrar } from '../http/server.ts';

/** The page loads its own style sheet and nothing else; no script runs on it. */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Placeholder for the server's address, which is replaced in each response. */
const ADDRESS_PLACEHOLDER = 'https://server.invalid';
/** Matches a name, an IPv4 address or a bracketed IPv6 address, with or without a port. */
const HOST_PATTERN = /^(?:[\w.-]{1,253}|\[[\da-f:.]{2,45}\])(?::\d{1,5})?$/i;

/** Texts of the reference, each kept once: responses that wait for their clients share its memory. */
interface Reference {
  page: Buffer;
  /** The OpenAPI document before and after the server's address, which is that of each request. */
  openApi: [before: Buffer, after: Buffer];
}

/**
 * Registers the reference: `/openapi.json` and `/docs`. Neither needs a key.
 *
 * @param version of the product
 */
export function referenceRoutes(version: string): RouteRegistrar {
  const style = readFileSync(new URL('style.css', import.meta.url));
  let rendered: Promise<Reference> | undefined;
  // At the first request: the schemas, and the library that describes them, would take some 10 MB of every process.
  const getReference = (): Promise<Reference> => {
    rendered ??= renderReference(version).catch((error: unknown) => {
      rendered = undefined;
      throw error;
    });
    return rendered;
  };
  return (router) => {
    router.get(
      '/openapi.json',
      serveText('application/json', async (request) => {
        const [before, after] = (await getReference()).openApi;
        return [before, Buffer.from(JSON.stringify(getServerAddress(request))), after];
      }),
    );
    router.get(
      '/docs',
      serveText('text/html', async () => [(await getReference()).page]),
    );
    router.get(
      '/docs/style.css',
      serveText('text/css', async () => [style]),
    );
  };
}

/** Renders the reference once; only the server's address is replaced per request. */
async function renderReference(version: string): Promise<Reference> {
  const [{ createOpenApiDocument, OPERATIONS }, { renderReferencePage }] = await Promise.all([
    import('./document.ts'),
    import('./page.ts'),
  ]);
  const document = JSON.stringify(createOpenApiDocument(version, ADDRESS_PLACEHOLDER));
  const [before = '', after = ''] = document.split(JSON.stringify(ADDRESS_PLACEHOLDER));
  return {
    page: Buffer.from(renderReferencePage(OPERATIONS, version)),
    openApi: [Buffer.from(before), Buffer.from(after)],
  };
}

/** Returns the URL by which the client reached the server: no other is known to work for the client. */
function getServerAddress(request: Request): string {
  const { host = '' } = request.headers;
  return HOST_PATTERN.test(host) ? `${request.protocol}://${host}` : '/';
}

function serveText(type: string, getText: (request: Request) => Promise<Buffer[]>): RequestHandler {
  const headers = {
    'content-type': `${type}; charset=utf-8`,
    'content-security-policy': CONTENT_SECURITY_POLICY,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'public, max-age=300',
  };
  return async (request, response) => {
    const parts = await getText(request);
    const length = parts.reduce((sum, part) => sum + part.byteLength, 0);
    response.writeHead(200, { ...headers, 'content-length': length });
    for (const part of parts) response.write(part);
    response.end();
  };
}
