import type { Attempt } from '../../deliver/provider.ts';

/** What came of one request. */
export type ApnsAnswer =
  /** `reason` and `timestamp` (ms, until when the token was good) as in the answer's body, if it has them. */
  | {
      kind: 'answered';
      status: number;
      reason?: string;
      timestamp?: number;
      retryAfterMs?: number | undefined;
    }
  /** APNs surely did nothing with it: a stream refused, or above a GOAWAY's last one (RFC 9113, 6.8 and 8.7). */
  | { kind: 'unprocessed'; detail: string }
  /** No answer came, and nobody knows. */
  | { kind: 'lost'; detail: string }
  /** The credential can't be used for a link, or was turned away when one was made. */
  | { kind: 'unusable'; detail: string };

type Answered = Extract<ApnsAnswer, { kind: 'answered' }>;
type Rule = (answer: Answered, detail: string) => Attempt;

const badAddress: Rule = (_, detail) => rejected('bad-provider-address', detail);
const wrongCredential: Rule = (_, detail) => rejected('wrong-credential', detail);
const tooLarge: Rule = (_, detail) => rejected('payload-too-large', detail);
const byProvider: Rule = (_, detail) => rejected('rejected-by-provider', detail);
const refused: Rule = (_, detail) => ({ kind: 'refused', detail });
const gone: Rule = ({ timestamp }) => ({
  kind: 'gone',
  flag: 'uninstalled',
  ...(timestamp !== undefined && { lastSeenAt: new Date(timestamp) }),
});
const slowDown: Rule = (answer, detail) => retry('recipient', answer, detail);
const unwell: Rule = (answer, detail) => retry('line', answer, detail);

/**
 * Apple, "Handling notification responses from APNs". What depends on the device's token or bundle is this
 * recipient's; what depends on our key or certificate and the environment is the whole line's.
 */
const BY_REASON = new Map<string, Rule>(
  Object.entries({
    BadDeviceToken: badAddress,
    MissingDeviceToken: badAddress,
    // The bundle that the device named is no topic at all.
    BadTopic: badAddress,
    MissingTopic: badAddress,
    DeviceTokenNotForTopic: wrongCredential,
    TopicDisallowed: wrongCredential,
    PayloadTooLarge: tooLarge,
    Unregistered: gone,
    ExpiredToken: gone,
    BadCertificate: refused,
    BadCertificateEnvironment: refused,
    BadEnvironmentKeyIdInToken: refused,
    ExpiredProviderToken: refused,
    Forbidden: refused,
    InvalidProviderToken: refused,
    MissingProviderToken: refused,
    UnrelatedKeyIdInToken: refused,
    TooManyRequests: slowDown,
    TooManyProviderTokenUpdates: unwell,
    IdleTimeout: unwell,
    InternalServerError: unwell,
    ServiceUnavailable: unwell,
    Shutdown: unwell,
  }),
);

/** For answers without a reason that we know, such as those of a proxy on the way. */
const BY_STATUS = new Map<number, Rule>([
  [403, refused],
  [410, gone],
  [413, tooLarge],
  [429, slowDown],
]);

/** An answer of APNs in our words. */
export function apnsOutcome(answer: ApnsAnswer): Attempt {
  switch (answer.kind) {
    case 'answered':
      return outcomeOfAnswer(answer);
    case 'unprocessed':
      return { kind: 'retry', scope: 'recipient', detail: answer.detail, afterMs: 0 };
    case 'lost':
      return { kind: 'retry', scope: 'line', detail: answer.detail };
    case 'unusable':
      return { kind: 'refused', detail: answer.detail };
  }
}

function outcomeOfAnswer(answer: Answered): Attempt {
  if (answer.status === 200) return { kind: 'sent' };
  const detail = answer.reason ?? `status ${answer.status}`;
  const rule = BY_REASON.get(answer.reason ?? '') ?? BY_STATUS.get(answer.status);
  if (rule !== undefined) return rule(answer, detail);
  const blamesRequest = answer.status >= 400 && answer.status < 500;
  return (blamesRequest ? byProvider : unwell)(answer, detail);
}

function rejected(reason: Extract<Attempt, { kind: 'rejected' }>['reason'], detail: string) {
  return { kind: 'rejected', reason, detail } as const;
}

function retry(scope: 'recipient' | 'line', { retryAfterMs }: Answered, detail: string): Attempt {
  const after = retryAfterMs !== undefined && { afterMs: retryAfterMs };
  return { kind: 'retry', scope, detail, ...after };
}

/** Whether the provider token had ended on its way. */
export function isExpiredToken(answer: ApnsAnswer): boolean {
  return answer.kind === 'answered' && answer.reason === 'ExpiredProviderToken';
}
