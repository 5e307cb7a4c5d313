import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { z } from 'zod';
import { createContentSecurityPolicy } from './browser-access.ts';
import { HttpError, type RequestContext, type Route } from './route.ts';

const PAGE_FOLDER = join(import.meta.dirname, '../page');
const WEB_CLIENT_FOLDER = join(import.meta.dirname, '../../../../packages/web-client');

const CONTENT_TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.json': 'application/json',
  '.webmanifest': 'application/manifest+json',
};

const stackFileSchema = z.object({ api: z.string(), app: z.string() });

/**
 * Creates the routes of the live page and of the Web Push demo.
 *
 * @param stackFilePath path of the running stack's `dev.json`, from which the demo takes the API and the app
 */
export function createFileRoutes(stackFilePath?: string): Route[] {
  return [
    { method: 'GET', path: /^\/$/, handle: (context) => send(context, PAGE_FOLDER, 'live.html') },
    {
      method: 'GET',
      path: /^\/page\/(?<name>[\w-]+\.\w+)$/,
      handle: (context) => send(context, PAGE_FOLDER, context.params.name ?? ''),
    },
    {
      method: 'GET',
      path: /^\/demo$/,
      handle: (context) => redirectToDemo(context, stackFilePath),
    },
    {
      method: 'GET',
      path: /^\/demo\/(?<name>.*)$/,
      handle: (context) => sendDemo(context, stackFilePath),
    },
  ];
}

/** Redirects to the demo with the API and the app in the query; a given query is kept. */
async function redirectToDemo(
  { response, query }: RequestContext,
  stackFilePath?: string,
): Promise<void> {
  const demoQuery = query.size > 0 ? query : await readStackQuery(stackFilePath);
  const location = demoQuery === undefined ? '/demo/' : `/demo/?${demoQuery}`;
  response.writeHead(302, { location, 'cache-control': 'no-store' }).end();
}

/** Reads the stack file at each request: the app is created after the sandbox has started. */
async function readStackQuery(
  stackFilePath: string | undefined,
): Promise<URLSearchParams | undefined> {
  if (stackFilePath === undefined) return undefined;
  try {
    return new URLSearchParams(
      stackFileSchema.parse(JSON.parse(await readFile(stackFilePath, 'utf8'))),
    );
  } catch {
    return undefined;
  }
}

/** Sends a file of the demo folder, or else of the web client's folder. */
async function sendDemo(context: RequestContext, stackFilePath?: string): Promise<void> {
  const hasNoTarget = context.params.name === '' && context.query.size === 0;
  if (hasNoTarget && (await readStackQuery(stackFilePath)) !== undefined)
    return redirectToDemo(context, stackFilePath);
  const name = context.params.name === '' ? 'index.html' : (context.params.name ?? '');
  const isSent = await trySend(context, join(WEB_CLIENT_FOLDER, 'demo'), name);
  if (!isSent) await send(context, WEB_CLIENT_FOLDER, name);
}

async function send(context: RequestContext, folder: string, name: string): Promise<void> {
  if (!(await trySend(context, folder, name))) throw new HttpError(404, `There is no ${name}.`);
}

async function trySend(
  { response, query }: RequestContext,
  folder: string,
  name: string,
): Promise<boolean> {
  const path = normalize(join(folder, name));
  const type = CONTENT_TYPES[extname(path)];
  if (!path.startsWith(`${folder}/`) || type === undefined) return false;
  const content = await readFile(path).catch(() => undefined);
  if (content === undefined) return false;
  response
    .writeHead(200, {
      'content-type': type,
      'cache-control': 'no-cache',
      'content-security-policy': createContentSecurityPolicy(query.get('api')),
    })
    .end(content);
  return true;
}
