import { parseJsonObject } from '@carillon/core/json-text';
import type { ReadBody } from '@carillon/runtime/read-body';
import type { Request } from 'express';
import { ConsoleError } from './route.ts';

const DEFAULT_BODY_LIMIT = 256 * 1_024;
/** Maximum nesting of a body; that of a push's payload is limited by its own rules. */
const MAX_DEPTH = 64;

/** Input of a request before it is parsed by its route. */
export interface RawInput {
  fields: Record<string, unknown>;
  /** The body as it was received; empty without one. */
  bodyText: string;
}

/** How the body of a request is read. */
export interface BodyReading {
  readBody: ReadBody<Request>;
  /** The operator, if there is a session. */
  operator: string | undefined;
  /** Largest body in bytes. */
  bodyLimit: number | undefined;
}

/**
 * Reads a request's body, and joins query, body and path parameters; the path wins.
 *
 * @throws ConsoleError INVALID_PARAM; ApiError BODY_TOO_LARGE, and others of the body
 */
export async function readInput(request: Request, reading: BodyReading): Promise<RawInput> {
  const bodyText = request.method === 'GET' ? '' : await readText(request, reading);
  const body = bodyText === '' ? {} : parseJsonObject(bodyText, MAX_DEPTH);
  return { fields: { ...request.query, ...body, ...request.params }, bodyText };
}

async function readText(
  request: Request,
  { readBody, operator, bodyLimit = DEFAULT_BODY_LIMIT }: BodyReading,
): Promise<string> {
  // A browser sends a POST without a body with Content-Length 0, and without a type.
  const { 'transfer-encoding': encoding, 'content-length': length = '0' } = request.headers;
  if (encoding === undefined && length === '0') return '';
  // A form of another site could send any type but this one without a preflight request.
  if (request.is('application/json') === false) {
    throw new ConsoleError('INVALID_PARAM', 'The request body must be application/json.');
  }
  return readBody(request, bodyLimit, { account: operator, address: () => request.ip ?? '' });
}
