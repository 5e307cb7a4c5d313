import { isNativeError } from 'node:util/types';

/** Codes of expected failures. */
export type AdminErrorCode =
  | 'ACCOUNT_NOT_FOUND'
  | 'APP_NOT_FOUND'
  | 'CREDENTIAL_NOT_FOUND'
  | 'DEVICE_NOT_FOUND'
  | 'KEY_NOT_FOUND'
  | 'LINK_NOT_FOUND'
  | 'OPERATOR_NOT_FOUND'
  | 'PUSH_NOT_FOUND'
  | 'TOKEN_NOT_FOUND'
  | 'REDRIVE_NOT_FOUND'
  | 'TOPIC_NOT_FOUND'
  | 'WEBHOOK_NOT_FOUND'
  | 'REQUEST_NOT_FOUND'
  /** The app has the maximum number of webhooks. */
  | 'WEBHOOK_LIMIT_REACHED'
  | 'WEBHOOK_IS_OFF'
  /** Another request of the webhook waits to be sent again. */
  | 'RESEND_PENDING'
  /** The events of a request can't be built again. */
  | 'EVENTS_NOT_STORED'
  /** No delivery worker has published the key that webhooks are sealed with. */
  | 'BOX_KEY_MISSING'
  /** The operator logs in by single sign-on. */
  | 'HAS_NO_PASSWORD'
  /** Another app has the bundle id or host name. */
  | 'NAME_TAKEN'
  | 'INVALID_BUNDLE_ID'
  | 'INVALID_WEB_HOST'
  | 'INVALID_CREDENTIAL'
  /** The app has a key pair that would be replaced, or that the request does not change. */
  | 'KEY_PAIR_EXISTS'
  /** Another request changed the document between read and write. */
  | 'CONCURRENT_CHANGE'
  /** The only owner that is left: without it the operators could not be managed. */
  | 'LAST_OWNER'
  /** The devices to prune may have been seen too recently. */
  | 'TOO_RECENT'
  /** The app is paused, or its account suspended. */
  | 'DELIVERIES_HELD'
  | 'REDIS_UNREACHABLE'
  /** An app has one re-drive at a time. */
  | 'REDRIVE_RUNNING'
  | 'SANDBOX_UNREACHABLE';

/** Inputs that an error can name, so that each user interface points to its own option or form field. */
export type AdminField =
  | 'keyId'
  | 'teamId'
  | 'passphrase'
  | 'environment'
  | 'contact'
  | 'privateKey'
  | 'replace';

/** Expected failure of an administrative function; `message` is one sentence for an operator. */
export class AdminError extends Error {
  override readonly name = 'AdminError';
  readonly code: AdminErrorCode;
  /** The inputs that can resolve it; empty when none does. */
  readonly fields: readonly AdminField[];

  constructor(code: AdminErrorCode, message: string, ...fields: AdminField[]) {
    super(message);
    this.code = code;
    this.fields = fields;
  }
}

/** Creates the error of an unusable credential. */
export function invalidCredential(message: string, ...fields: AdminField[]): AdminError {
  return new AdminError('INVALID_CREDENTIAL', message, ...fields);
}

/** Returns the message of an error's innermost cause without its full stop: Node wraps causes in "fetch failed". */
export function describeError(error: unknown): string {
  if (!isNativeError(error)) return String(error);
  if (isNativeError(error.cause)) return describeError(error.cause);
  if (error instanceof AggregateError && error.message === '')
    return describeError(error.errors[0]);
  return error.message.replace(/\.?(\n.*)?$/s, '');
}
