import { ApiError } from '@carillon/core/api-error';
import type { Response } from 'express';

/** A successful answer: a value, or JSON text already made (payloads keep their own text). */
export type Answer = object | string;

const HEADERS = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' };

/** Sends an answer with status 200. */
export function sendAnswer(response: Response, answer: Answer): void {
  const text = typeof answer === 'string' ? answer : JSON.stringify(answer);
  response.writeHead(200, HEADERS).end(text);
}

/**
 * Sends an error as the specification says: status, `code`, `error`. An unread body is not waited for: the
 * connection closes, so that a client can't hold it with a body that nobody reads.
 */
export function sendError(response: Response, error: ApiError): void {
  if (response.headersSent) return void response.destroy();
  if (!response.req.complete) response.setHeader('connection', 'close');
  if (error.code === 'SERVICE_UNAVAILABLE') response.setHeader('retry-after', '5');
  const body = JSON.stringify({ code: error.code, error: error.message });
  response.writeHead(error.status, HEADERS).end(body);
}

/** Any thrown value as an API error; surprises become INTERNAL_SERVER_ERROR without a word of their text. */
export function toApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError('INTERNAL_SERVER_ERROR');
}
