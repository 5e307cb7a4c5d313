import type { Webhook, WebhookRequest, WebhookResponse } from '../api/types.ts';

const STATES: Record<Webhook['state'], string> = { on: 'On', failing: 'Failing', off: 'Off' };

/** Returns a webhook's state in a word. */
export function webhookStateLabel({ state }: Pick<Webhook, 'state'>): string {
  return STATES[state];
}

const OFF_REASONS: Record<NonNullable<Webhook['reason']>, string> = {
  operator: 'Turned off by an operator or the app',
  gone: 'Turned off: the receiver responded with 410',
  failing: 'Turned off after five days of failures',
};

/** Describes why a webhook is off; undefined if it is on. */
export function describeOff({ reason }: Pick<Webhook, 'reason'>): string | undefined {
  return reason === undefined ? undefined : OFF_REASONS[reason];
}

/** Counts the webhooks that failures have turned off, not an operator. */
export function countTurnedOff(webhooks: readonly Pick<Webhook, 'reason'>[]): number {
  return webhooks.filter(({ reason }) => reason === 'gone' || reason === 'failing').length;
}

const STATUS_TEXTS: Record<number, string> = {
  401: 'Refused: does the receiver check with the newest secret?',
  403: 'Refused: does the receiver check with the newest secret?',
  404: 'The receiver has nothing at this path',
  410: 'The receiver wants no more requests',
  413: 'The request is too large for the receiver',
  429: 'Too many requests for the receiver',
};

const NOT_TRUSTED = 'The certificate is not trusted: a private authority needs WEBHOOK_CA_FILE';
const NOT_ALLOWED =
  'The host can’t be found, or its address is private or http: only WEBHOOK_HOSTS can allow it';

const ERROR_TEXTS: Record<string, string> = {
  ECONNREFUSED: 'Nothing listens at this address',
  ECONNRESET: 'The connection was closed without a response',
  ETIMEDOUT: 'No response in time',
  ENOTFOUND: 'There is no such host name',
  EAI_AGAIN: 'The host name can’t be looked up at the moment',
  EHOSTUNREACH: 'The host can’t be reached',
  ENETUNREACH: 'The host can’t be reached',
  'address not allowed': NOT_ALLOWED,
  DEPTH_ZERO_SELF_SIGNED_CERT: NOT_TRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: NOT_TRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: NOT_TRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: NOT_TRUSTED,
  CERT_HAS_EXPIRED: 'The certificate has expired',
  ERR_TLS_CERT_ALTNAME_INVALID: 'The certificate is for another host',
};

/** Describes a receiver's response in words, with its status or error code: `Accepted (204)`. */
export function describeResponse({
  status,
  error,
}: Pick<WebhookResponse, 'status' | 'error'>): string {
  if (status !== undefined) return `${describeStatus(status)} (${status})`;
  const code = error ?? 'no response';
  const text = ERROR_TEXTS[code];
  return text === undefined ? code : `${text} (${code})`;
}

function describeStatus(status: number): string {
  if (status >= 200 && status < 300) return 'Accepted';
  if (status >= 300 && status < 400) return 'A redirect, which is not followed';
  return STATUS_TEXTS[status] ?? (status >= 500 ? 'The receiver has failed' : 'Not accepted');
}

/** Describes the events of a request, and its place among its repetitions: `2 push.finished, attempt 3`. */
export function describeRequest({
  types,
  attempt = 1,
  resendOf,
}: Pick<WebhookRequest, 'types' | 'attempt' | 'resendOf'>): string {
  return [
    ...types.map(({ type, count }) => `${count} ${type}`),
    ...(attempt > 1 ? [`attempt ${attempt}`] : []),
    ...(resendOf === undefined ? [] : ['sent again']),
  ].join(', ');
}
