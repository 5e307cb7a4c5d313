import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { limitLinks } from '@carillon/runtime/link-limits';
import type { TcpAddress } from '../transport/tls-server.ts';
import type { Autopush } from '../web-push/autopush.ts';
import { checkAccess, ISOLATION_HEADERS } from './browser-access.ts';
import { HttpError, type Route, sendJson } from './route.ts';

/** Maximum time for which the body of a rejected request is read and discarded. */
const REQUEST_TIMEOUT_MS = 30_000;
const TIMEOUT_CHECK_INTERVAL_MS = 5_000;
const FORBIDDEN_RESPONSE =
  'HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';

/**
 * Creates the server of the control API. Browsers open their WebSocket on the same port.
 *
 * @param names its host names besides `localhost`
 */
export function createControlServer(
  routes: readonly Route[],
  autopush: Autopush,
  names: readonly string[],
) {
  const limits = {
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionsCheckingInterval: TIMEOUT_CHECK_INTERVAL_MS,
  };
  const links = limitLinks((request, response) => {
    for (const [name, value] of Object.entries(ISOLATION_HEADERS)) response.setHeader(name, value);
    handleRequest(routes, names, request, response).catch((error: unknown) =>
      sendError(response, error),
    );
  });
  const server = createServer(limits, links.listener);
  links.watch(server);
  server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => undefined);
    if (!autopush.isBrowserUpgrade(request)) socket.destroy();
    else if (!isAllowed(request, names)) socket.end(FORBIDDEN_RESPONSE);
    else autopush.handleUpgrade(request, socket, head);
  });
  return {
    /** @returns the port */
    listen: (address: TcpAddress): Promise<number> => listen(server, address),
    stop: (): Promise<void> =>
      new Promise((resolve) => {
        autopush.stop();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function isAllowed(request: IncomingMessage, names: readonly string[]): boolean {
  try {
    checkAccess(request, names);
    return true;
  } catch {
    return false;
  }
}

async function handleRequest(
  routes: readonly Route[],
  names: readonly string[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  checkAccess(request, names);
  const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://sandbox');
  for (const { method, path, handle } of routes) {
    const match = path.exec(pathname);
    if (method !== request.method || match === null) continue;
    const parts = Object.entries(match.groups ?? {});
    const params = Object.fromEntries(parts.map(([name, value]) => [name, decodePathPart(value)]));
    const result = await handle({ request, response, query, params });
    if (result !== undefined) sendJson(response, 200, JSON.stringify(result));
    return;
  }
  throw new HttpError(404, `There is no ${request.method} ${pathname}.`);
}

function decodePathPart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new HttpError(400, 'The path has an invalid encoding.');
  }
}

function sendError(response: ServerResponse, error: unknown): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const status = error instanceof HttpError ? error.status : 500;
  const message = error instanceof Error ? error.message : String(error);
  sendJson(response, status, JSON.stringify({ error: message }));
}

function listen(server: Server, address: TcpAddress): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(address, () => {
      server.off('error', reject);
      resolve((server.address() as AddressInfo).port);
    });
  });
}
