import { parseJsonObject } from '@carillon/core/json-text';
import express, { type Request, type Response } from 'express';
import { ConsoleError } from './route.ts';

const DEFAULT_BODY_LIMIT = 256 * 1_024;
/** Nesting of a body; that of a push's payload is limited by its own rules. */
const MAX_DEPTH = 64;

/** Input of a request before it is parsed by its route. */
export interface RawInput {
  fields: Record<string, unknown>;
  /** The body as it was received; empty without one. */
  bodyText: string;
}

/**
 * Reads a request's body, and joins query, body and path parameters; the path wins.
 *
 * @throws ConsoleError INVALID_PARAM; an error with status 413 for a body above the limit
 */
export async function readInput(
  request: Request,
  response: Response,
  bodyLimit = DEFAULT_BODY_LIMIT,
): Promise<RawInput> {
  const bodyText = request.method === 'GET' ? '' : await readBody(request, response, bodyLimit);
  const body = bodyText === '' ? {} : parseJsonObject(bodyText, MAX_DEPTH);
  return { fields: { ...request.query, ...body, ...request.params }, bodyText };
}

async function readBody(request: Request, response: Response, limit: number): Promise<string> {
  // A browser sends a POST without a body with Content-Length 0, and without a type.
  const { 'transfer-encoding': encoding, 'content-length': length = '0' } = request.headers;
  if (encoding === undefined && length === '0') return '';
  // A form of another site could send any type but this one without a preflight request.
  if (request.is('application/json') === false) {
    throw new ConsoleError('INVALID_PARAM', 'The request body must be application/json.');
  }
  const parse = express.text({ type: 'application/json', limit, defaultCharset: 'utf-8' });
  await new Promise<void>((resolve, reject) => {
    parse(request, response, (error?: unknown) => {
      if (error === undefined) resolve();
      else reject(error);
    });
  });
  return typeof request.body === 'string' ? request.body : '';
}
