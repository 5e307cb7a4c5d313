import express, { type Router } from 'express';
import { createPageFile, sendFile } from './pages.ts';
import type { ConsoleRoute } from './route.ts';

const PATH = '/openapi-admin.json';

/**
 * Creates the router of the admin API's reference, which needs no token.
 *
 * @param server URL of the console
 */
export function createReferenceFile(
  routes: readonly ConsoleRoute[],
  version: string,
  server: string,
): Router {
  let file: ReturnType<typeof createPageFile> | undefined;
  // At the first request: few processes are asked for it.
  const prepare = async () => {
    const { createAdminDocument } = await import('../reference/document.ts');
    const text = JSON.stringify(createAdminDocument(routes, version, server));
    return createPageFile(Buffer.from(text), PATH);
  };
  return express.Router().get(PATH, async (request, response) => {
    file ??= prepare();
    sendFile(request, response, await file);
  });
}
