import { AdminError, type AdminErrorCode } from '@carillon/admin/admin-error';
import { ApiError } from '@carillon/core/api-error';
import { z } from 'zod';
import { ConsoleError, type ConsoleErrorCode, notFound } from './route.ts';

/** Codes of administrative functions; those that end in NOT_FOUND get the one text for all objects. */
const CODE_OF_ADMIN_ERROR: Partial<Record<AdminErrorCode, ConsoleErrorCode>> = {
  INVALID_BUNDLE_ID: 'INVALID_PARAM',
  INVALID_WEB_HOST: 'INVALID_PARAM',
  INVALID_CREDENTIAL: 'INVALID_PARAM',
  NAME_TAKEN: 'CONFLICT',
  HAS_NO_PASSWORD: 'CONFLICT',
  KEY_PAIR_EXISTS: 'CONFLICT',
  CONCURRENT_CHANGE: 'CONFLICT',
  LAST_OWNER: 'CONFLICT',
  REDRIVE_RUNNING: 'CONFLICT',
  WEBHOOK_LIMIT_REACHED: 'CONFLICT',
  WEBHOOK_IS_OFF: 'CONFLICT',
  RESEND_PENDING: 'CONFLICT',
  EVENTS_NOT_STORED: 'CONFLICT',
  BOX_KEY_MISSING: 'UNAVAILABLE',
  SANDBOX_UNREACHABLE: 'UNAVAILABLE',
};

/** Codes by the status of an error of the API's own code. */
const CODE_OF_STATUS: Partial<Record<number, ConsoleErrorCode>> = {
  400: 'INVALID_PARAM',
  404: 'NOT_FOUND',
  // A body that is not complete in time, and one that is compressed.
  408: 'INVALID_PARAM',
  415: 'INVALID_PARAM',
  409: 'CONFLICT',
  413: 'TOO_LARGE',
  429: 'TOO_MANY_ATTEMPTS',
  503: 'UNAVAILABLE',
};

/** Names of the driver's errors that mean that MongoDB can't be reached or does not respond. */
const DATABASE_IS_AWAY =
  /^Mongo(ServerSelection|Network|NetworkTimeout|OperationTimeout|TopologyClosed|WaitQueueTimeout)Error$/;

/** Converts a thrown value; an unexpected error becomes INTERNAL or UNAVAILABLE without its text. */
export function toConsoleError(thrown: unknown): ConsoleError {
  if (thrown instanceof ConsoleError) return thrown;
  if (thrown instanceof AdminError) return fromAdminError(thrown);
  if (thrown instanceof ApiError) return fromApiError(thrown);
  if (thrown instanceof z.ZodError) return invalidInput(thrown);
  const { name = '' } = thrown as { name?: string };
  if (DATABASE_IS_AWAY.test(name)) {
    return new ConsoleError('UNAVAILABLE', 'The database does not respond. Try again shortly.', 5);
  }
  return new ConsoleError(
    'INTERNAL',
    'An unexpected error occurred. The log has it under this request id.',
  );
}

function fromAdminError({ code, message }: AdminError): ConsoleError {
  if (code.endsWith('_NOT_FOUND')) return notFound();
  return new ConsoleError(CODE_OF_ADMIN_ERROR[code] ?? 'INVALID_PARAM', message);
}

function fromApiError(error: ApiError): ConsoleError {
  const { code, status, message, retryAfterSeconds, parameter } = error;
  if (code === 'ACCOUNT_SUSPENDED' || code === 'RATE_LIMIT_EXCEEDED')
    return new ConsoleError(code, message, retryAfterSeconds);
  const consoleCode = CODE_OF_STATUS[status] ?? 'INTERNAL';
  return new ConsoleError(consoleCode, message, retryAfterSeconds, parameter);
}

function invalidInput({ issues }: z.ZodError): ConsoleError {
  const [issue] = issues;
  const field = issue === undefined ? '' : issue.path.join('.');
  const text = issue?.message ?? 'The input is invalid.';
  return new ConsoleError('INVALID_PARAM', field === '' ? text : `${field}: ${text}`);
}
