import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { z } from 'zod';

const MOST_BODY_BYTES = 4_194_304;

/** A request to the control API, with the parts of its path that the route names. */
export interface Called {
  request: IncomingMessage;
  response: ServerResponse;
  query: URLSearchParams;
  params: Record<string, string>;
}

/** One entry of the API. */
export interface Route {
  method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  path: RegExp;
  /** Answers by itself, or gives what is answered as JSON. */
  handle(called: Called): unknown;
}

/** What is asked for can't be done; `status` is the HTTP status. */
export class Refused extends Error {
  readonly status: number;

  constructor(status: number, words: string) {
    super(words);
    this.status = status;
  }
}

/**
 * Reads and checks a JSON body; no body is an empty object.
 * @throws Refused (400, 413)
 */
export async function readJson<S extends z.ZodType>(
  request: IncomingMessage,
  schema: S,
): Promise<z.infer<S>> {
  if (Number(request.headers['content-length'] ?? 0) > MOST_BODY_BYTES) {
    throw new Refused(413, 'The body is over 4 MB.');
  }
  const parsed = schema.safeParse(parse(await text(request)));
  if (!parsed.success) throw new Refused(400, z.prettifyError(parsed.error));
  return parsed.data;
}

function parse(body: string): unknown {
  try {
    return body === '' ? {} : JSON.parse(body);
  } catch {
    throw new Refused(400, 'The body is no JSON.');
  }
}

/** A whole number of the query. @throws Refused (400) */
export function readNumber(query: URLSearchParams, name: string, fallback: number): number {
  const given = query.get(name);
  if (given === null) return fallback;
  if (!/^\d{1,15}$/.test(given)) throw new Refused(400, `${name} must be a whole number.`);
  return Number(given);
}

/** Answers with JSON text. */
export function sendJson(response: ServerResponse, status: number, json: string): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(json);
}
