import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join, relative, sep } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Request, RequestHandler, Response } from 'express';

const compress = promisify(gzip);

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.webmanifest': 'application/manifest+json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
  '.txt': 'text/plain; charset=utf-8',
  '.md': 'text/plain; charset=utf-8',
};
const COMPRESSED = /^(text|application\/(json|manifest)|image\/svg)/;
/** Names with a hash: their files never change. */
const IMMUTABLE = /^\/(assets|static\/(js|css))\//;
const ENTRY = '/index.html';
const MISSING_PAGES =
  'The pages of the console are not built. Run "npm run build" in services/dashboard/web, then reload this page.\n';

/** A file as it is sent. */
interface PageFile {
  content: Buffer;
  gzipped: Buffer | undefined;
  headers: Record<string, string>;
}

/**
 * Creates the handler of the single-page console. Its files are read once and kept in memory; assets have a hash in
 * their name and may be cached for ever. Any other path gets the entry page, whose script shows the right one.
 */
export function createPages(folder: string): RequestHandler {
  let loaded: Promise<ReadonlyMap<string, PageFile>> | undefined;

  async function load(): Promise<ReadonlyMap<string, PageFile> | undefined> {
    loaded ??= readFiles(folder);
    const files = await loaded;
    // They may be built while the process runs.
    if (!files.has(ENTRY)) loaded = undefined;
    return loaded === undefined ? undefined : files;
  }

  return async (request, response, next) => {
    if (request.method !== 'GET' && request.method !== 'HEAD') return next();
    const files = await load();
    if (files === undefined) {
      response.writeHead(503, { 'content-type': 'text/plain; charset=utf-8' }).end(MISSING_PAGES);
      return;
    }
    const path = request.path;
    const isFile = path.startsWith('/assets/') || extname(path) !== '';
    const file = files.get(path) ?? (isFile ? undefined : files.get(ENTRY));
    if (file === undefined) return void response.writeHead(404).end();
    sendFile(request, response, file);
  };
}

/** Sends a file; 304 when the browser has it. */
export function sendFile(
  request: Request,
  response: Response,
  { content, gzipped, headers }: PageFile,
): void {
  if (request.headers['if-none-match'] === headers.etag)
    return void response.writeHead(304, headers).end();
  const acceptsGzip = request.acceptsEncodings('gzip') === 'gzip';
  const body = acceptsGzip ? (gzipped ?? content) : content;
  response
    .writeHead(200, {
      ...headers,
      ...(body === gzipped && { 'content-encoding': 'gzip' }),
      'content-length': body.length,
    })
    .end(request.method === 'HEAD' ? undefined : body);
}

/** Reads all files of a folder by their path, such as `/index.html`; none if it doesn't exist. */
export async function readFiles(folder: string): Promise<ReadonlyMap<string, PageFile>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = new Map<string, PageFile>();
  for (const entry of entries.filter((found) => found.isFile())) {
    const path = join(entry.parentPath, entry.name);
    const name = `/${relative(folder, path).split(sep).join('/')}`;
    files.set(name, await readPageFile(path, name));
  }
  return files;
}

async function readPageFile(path: string, name: string): Promise<PageFile> {
  return createPageFile(await readFile(path), name);
}

/** Prepares a file for responses. @param name decides its type, and whether it never changes */
export async function createPageFile(content: Buffer, name: string): Promise<PageFile> {
  const type = TYPES[extname(name)] ?? 'application/octet-stream';
  return {
    content,
    gzipped: COMPRESSED.test(type) ? await compress(content, { level: 9 }) : undefined,
    headers: {
      'content-type': type,
      'cache-control': IMMUTABLE.test(name) ? 'public, max-age=31536000, immutable' : 'no-cache',
      etag: `"${createHash('sha256').update(content).digest('base64url').slice(0, 22)}"`,
      vary: 'accept-encoding',
    },
  };
}
