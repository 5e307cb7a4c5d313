import { LIMITS } from '@carillon/core/limits';
import type { Platform } from '@carillon/core/platforms';
import type { TopicCounter } from '@carillon/store/topics';
import type { PushRequest } from './parse-push.ts';

/** A device as a recipient. */
export interface Recipient {
  token: string;
  platform: Platform;
}

/** What resolving needs of the store. */
export interface AudienceDeps {
  findRecipient(app: string, token: string): Promise<Recipient | undefined>;
  findRecipients(app: string, tokens: readonly string[]): Promise<Recipient[]>;
  /** The topics' counters; topics without subscribers may be left out. */
  topicCounters(app: string, topics: readonly string[]): Promise<Map<string, TopicCounter>>;
  subscribers(app: string, topic: string): AsyncIterable<Recipient>;
}

/** Whom a push is for. */
export interface Audience {
  /** Devices that are known now, without doubles. */
  recipients: Recipient[];
  /** Topics that the fan-out resolves. */
  topics: string[];
  /** `info.devices`. */
  devices: number;
  /** Whether iOS devices are among them. */
  hasIos: boolean;
}

/** Topics of up to this many subscribers together are resolved when the push is accepted, like tokens. */
const RESOLVED_AT_ONCE = 1_000;
/** Up to this many recipients `info.devices` is counted without doubles, beyond it topics' counters are added up. */
const COUNTED_EXACTLY = 10_000;

/** Looks up tokens, and topics as far as they are small. A scheduled push's topics are resolved when it is due. */
export async function resolveAudience(
  deps: AudienceDeps,
  app: string,
  request: Pick<PushRequest, 'tokens' | 'topics' | 'dueAtMs'>,
): Promise<Audience> {
  const named = await lookUp(deps, app, request.tokens);
  if (request.topics.length === 0) return resolved(named);
  const counters = await deps.topicCounters(app, request.topics);
  const subscribersOf = (topic: string) => counters.get(topic)?.subscribers ?? 0;
  const topics = request.topics.filter((topic) => subscribersOf(topic) > 0);
  const subscribed = topics.reduce((sum, topic) => sum + subscribersOf(topic), 0);
  const isScheduled = request.dueAtMs !== undefined;
  if (subscribed <= RESOLVED_AT_ONCE && !isScheduled) {
    return resolved(await union(deps, app, named, topics));
  }
  const total = named.length + subscribed;
  const isSum = total > COUNTED_EXACTLY || (named.length === 0 && topics.length === 1);
  return {
    recipients: named,
    // A topic that is empty now may have subscribers when a scheduled push is due.
    topics: isScheduled ? request.topics : topics,
    devices: isSum ? total : (await union(deps, app, named, topics)).length,
    hasIos: named.some(isIos) || topics.some((topic) => counters.get(topic)?.hasIos),
  };
}

function resolved(recipients: Recipient[]): Audience {
  return {
    recipients,
    topics: [],
    devices: recipients.length,
    hasIos: recipients.some(isIos),
  };
}

function isIos({ platform }: Recipient): boolean {
  return platform === 'ios';
}

async function lookUp(
  deps: AudienceDeps,
  app: string,
  tokens: readonly string[],
): Promise<Recipient[]> {
  const [only] = tokens;
  if (only === undefined) return [];
  if (tokens.length > 1) return deps.findRecipients(app, tokens);
  const device = await deps.findRecipient(app, only);
  return device === undefined ? [] : [device];
}

async function union(
  deps: AudienceDeps,
  app: string,
  named: readonly Recipient[],
  topics: readonly string[],
): Promise<Recipient[]> {
  const byToken = new Map(named.map((recipient) => [recipient.token, recipient]));
  for (const topic of topics) {
    for await (const recipient of deps.subscribers(app, topic)) {
      if (byToken.size > COUNTED_EXACTLY + LIMITS.tokensPerPush) break;
      byToken.set(recipient.token, recipient);
    }
  }
  return [...byToken.values()];
}
