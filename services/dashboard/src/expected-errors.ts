import { AdminError } from '@carillon/admin/admin-error';
import { ApiError } from '@carillon/core/api-error';
import { ConsoleError, notFound } from './http/route.ts';

const SERVICE_UNAVAILABLE = 503;
const SERVER_ERROR = 500;

/**
 * Waits for work of the packages and turns their expected failures into those of the console.
 *
 * @throws ConsoleError; any other error as it is
 */
export async function withConsoleErrors<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw toConsoleError(error);
  }
}

function toConsoleError(error: unknown): unknown {
  if (error instanceof AdminError)
    return error.code.endsWith('_NOT_FOUND')
      ? notFound()
      : new ConsoleError('INVALID_PARAM', error.message);
  if (!(error instanceof ApiError)) return error;
  if (error.status === SERVICE_UNAVAILABLE)
    return new ConsoleError('UNAVAILABLE', error.message, error.retryAfterSeconds);
  return error.status >= SERVER_ERROR ? error : new ConsoleError('INVALID_PARAM', error.message);
}
