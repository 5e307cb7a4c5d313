import { joinTokens, toBitWords } from '@carillon/core/batch';
import type { Way } from '@carillon/core/channels';
import { fallbackBatchId } from '@carillon/core/ids';
import type { BatchDocument, DeferredEntry } from './documents.ts';

/** Recipients of an MQTT batch that FCM is tried for too. */
interface FallbackRequest {
  /** Id of the MQTT batch, or of the push that holds it. */
  id: string;
  /** Position of the only recipient in that batch, if it is added to those that the batch's fallback is for. */
  position?: number;
  push: string;
  app: string;
  /** Those with an FCM token, in any order. Those that do not go by MQTT any more are due at once. */
  recipients: readonly { token: string; way?: Way }[];
  /** Tokens of those without an inbox row, because the inbox was full: they are due at once. */
  offered?: ReadonlySet<string>;
  /** Time from which the others are due, and the present one: milliseconds since 1970. */
  dueAtMs: number;
  nowMs: number;
}

/**
 * Creates a fallback batch of an MQTT batch. Its id follows from that of the batch, so there is one of each. The inbox
 * rows of the recipients stay, and stay responsible for them.
 */
export function createFallbackBatch(request: FallbackRequest): BatchDocument {
  const { id, position: added, push, app, offered, dueAtMs, nowMs } = request;
  const recipients = request.recipients.toSorted((a, b) => (a.token < b.token ? -1 : 1));
  const tokens = recipients.map(({ token }) => token);
  const full: number[] = [];
  const later: DeferredEntry[] = [];
  for (const [position, { token, way }] of recipients.entries()) {
    if (offered?.has(token)) full.push(position);
    else if (way !== 'fcm' && dueAtMs > nowMs) later.push([position, dueAtMs, 0]);
  }
  const isDueLater = later.length === tokens.length;
  return {
    _id: fallbackBatchId(id, added),
    push,
    app,
    from: tokens.at(0) ?? '',
    to: tokens.at(-1) ?? '',
    work: {
      ...{ state: 'ready', channel: 'fcm', fallback: true, tries: 0 },
      at: new Date(isDueLater ? dueAtMs : nowMs),
      ...{ n: tokens.length, tokens: joinTokens(tokens) },
      ...(full.length > 0 && { full: Object.fromEntries(toBitWords(full)) }),
      ...(!isDueLater && later.length > 0 && { later }),
    },
  };
}
