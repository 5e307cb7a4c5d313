import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';

const MAX_BODY_BYTES = 1_048_576;

/** A request to the control API, with the named parts of its path. */
export interface RequestContext {
  request: IncomingMessage;
  response: ServerResponse;
  query: URLSearchParams;
  params: Record<string, string>;
}

/** A route of the control API. */
export interface Route {
  method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  path: RegExp;
  /** Sends a response, or returns a value to send as JSON. */
  handle(context: RequestContext): unknown;
}

/** Error of a request; `status` is the HTTP status. */
export class HttpError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/**
 * Reads and validates a JSON body; a missing body is an empty object.
 * @throws {HttpError} 400, 413
 */
export async function readJson<S extends z.ZodType>(
  request: IncomingMessage,
  schema: S,
): Promise<z.infer<S>> {
  const parsed = schema.safeParse(parseJson(await readText(request)));
  if (!parsed.success) throw new HttpError(400, z.prettifyError(parsed.error));
  return parsed.data;
}

/** Reads the body. Bytes beyond the limit are discarded, so that the client can read the error response. */
function readText(request: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= MAX_BODY_BYTES) {
        chunks.push(chunk);
      } else {
        chunks.length = 0;
        reject(new HttpError(413, 'The body is over 1 MB.'));
      }
    });
    request.once('end', () => resolve(Buffer.concat(chunks).toString()));
    request.once('error', reject);
  });
}

function parseJson(body: string): unknown {
  try {
    return body === '' ? {} : JSON.parse(body);
  } catch {
    throw new HttpError(400, 'The body is not JSON.');
  }
}

/** Parses a whole number of the query. @throws {HttpError} 400 */
export function parseNumberParameter(
  query: URLSearchParams,
  name: string,
  fallback: number,
): number {
  const text = query.get(name);
  if (text === null) return fallback;
  if (!/^\d{1,15}$/.test(text)) throw new HttpError(400, `${name} must be a whole number.`);
  return Number(text);
}

/** Sends JSON text. */
export function sendJson(response: ServerResponse, status: number, json: string): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(json);
}
