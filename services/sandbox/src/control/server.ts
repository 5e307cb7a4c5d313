import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Autopush } from '../web-push/autopush.ts';
import type { At } from '../wire/tls-server.ts';
import { Refused, type Route, sendJson } from './route.ts';

/** Pages of other origins may drive the sandbox: it holds nothing that is worth keeping from them. */
const OPEN = {
  'access-control-allow-origin': '*',
  'access-control-allow-methods': 'GET, PUT, POST, DELETE',
  'access-control-allow-headers': '*',
};

export interface ControlServer {
  /** @returns the port */
  listen(at: At): Promise<number>;
  stop(): Promise<void>;
}

/** Makes the server of the control API, through whose port browsers come too. */
export function createControlServer(routes: readonly Route[], autopush: Autopush): ControlServer {
  const server = createServer((request, response) => {
    for (const [name, value] of Object.entries(OPEN)) response.setHeader(name, value);
    if (request.method === 'OPTIONS') response.writeHead(204).end();
    else answer(routes, request, response).catch((error: unknown) => fail(response, error));
  });
  server.on('upgrade', (request, socket, head) => {
    if (autopush.isFor(request)) autopush.upgrade(request, socket, head);
    else socket.destroy();
  });
  return {
    listen: (at) => listen(server, at),
    stop: () =>
      new Promise((resolve) => {
        autopush.stop();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(
  routes: readonly Route[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://sandbox');
  for (const { method, path, handle } of routes) {
    const match = path.exec(pathname);
    if (method !== request.method || match === null) continue;
    const parts = Object.entries(match.groups ?? {});
    const params = Object.fromEntries(parts.map(([name, value]) => [name, decode(value)]));
    const answered = await handle({ request, response, query, params });
    if (answered !== undefined) sendJson(response, 200, JSON.stringify(answered));
    return;
  }
  throw new Refused(404, `There is no ${request.method} ${pathname}.`);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new Refused(400, 'The path is not well encoded.');
  }
}

function fail(response: ServerResponse, error: unknown): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const status = error instanceof Refused ? error.status : 500;
  const words = error instanceof Error ? error.message : String(error);
  sendJson(response, status, JSON.stringify({ error: words }));
}

function listen(server: Server, at: At): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(at, () => {
      server.off('error', reject);
      resolve((server.address() as AddressInfo).port);
    });
  });
}
