import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { type Called, Refused, type Route } from './route.ts';

const PAGE = join(import.meta.dirname, '../page');
const WEB_CLIENT = join(import.meta.dirname, '../../../../packages/web-client');

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.json': 'application/json',
  '.webmanifest': 'application/manifest+json',
};

/** The page that shows what arrives, and the demonstration of Web Push. */
export function fileRoutes(): Route[] {
  return [
    { method: 'GET', path: /^\/$/, handle: (called) => send(called, PAGE, 'live.html') },
    {
      method: 'GET',
      path: /^\/page\/(?<name>[\w-]+\.\w+)$/,
      handle: (called) => send(called, PAGE, called.params.name ?? ''),
    },
    { method: 'GET', path: /^\/demo$/, handle: redirectToDemo },
    { method: 'GET', path: /^\/demo\/(?<name>.*)$/, handle: sendDemo },
  ];
}

/** The query stays: it names the API and the app. */
function redirectToDemo({ response, query }: Called): void {
  response.writeHead(302, { location: query.size === 0 ? '/demo/' : `/demo/?${query}` }).end();
}

/** The page itself lies in a folder of its own, the client's files beside it. */
async function sendDemo(called: Called): Promise<void> {
  const name = called.params.name === '' ? 'index.html' : (called.params.name ?? '');
  const isSent = await trySend(called, join(WEB_CLIENT, 'demo'), name);
  if (!isSent) await send(called, WEB_CLIENT, name);
}

async function send(called: Called, folder: string, name: string): Promise<void> {
  if (!(await trySend(called, folder, name))) throw new Refused(404, `There is no ${name}.`);
}

async function trySend({ response }: Called, folder: string, name: string): Promise<boolean> {
  const path = normalize(join(folder, name));
  const type = TYPES[extname(path)];
  if (!path.startsWith(`${folder}/`) || type === undefined) return false;
  const content = await readFile(path).catch(() => undefined);
  if (content === undefined) return false;
  response.writeHead(200, { 'content-type': type, 'cache-control': 'no-cache' }).end(content);
  return true;
}
