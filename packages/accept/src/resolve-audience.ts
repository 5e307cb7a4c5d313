import { LIMITS } from '@carillon/core/limits';
import type { Recipient } from '@carillon/store/devices';
import type { Store } from '@carillon/store/store';
import type { PushRequest } from './parse-push.ts';

/** Collections that resolving an audience reads. */
export type AudienceStore = Pick<Store, 'devices' | 'topics' | 'subscriptions'>;

/** Recipients of a push. */
export interface Audience {
  /** Devices that are resolved now, without duplicates. */
  recipients: Recipient[];
  /** Topics that the fan-out resolves. */
  topics: string[];
  /** `info.devices`. */
  devices: number;
  hasIos: boolean;
}

/** Topics with up to this many subscribers in total are resolved when the push is accepted, like tokens. */
const MAX_RESOLVED_SUBSCRIBERS = 1_000;
/** Up to this many recipients `info.devices` excludes duplicates; above it the topics' counters are added up. */
const MAX_EXACT_COUNT = 10_000;

/** Resolves tokens and small topics. Topics of a scheduled push are resolved when it is due. */
export async function resolveAudience(
  store: AudienceStore,
  app: string,
  request: Pick<PushRequest, 'tokens' | 'topics' | 'dueAtMs'>,
): Promise<Audience> {
  const tokenRecipients = await findTokenRecipients(store, app, request.tokens);
  if (request.topics.length === 0) return createResolvedAudience(tokenRecipients);
  const counters = await store.topics.findCounters(app, request.topics);
  const getSubscriberCount = (topic: string) => counters.get(topic)?.subscribers ?? 0;
  const topics = request.topics.filter((topic) => getSubscriberCount(topic) > 0);
  const subscriberCount = topics.reduce((sum, topic) => sum + getSubscriberCount(topic), 0);
  const isScheduled = request.dueAtMs !== undefined;
  if (subscriberCount <= MAX_RESOLVED_SUBSCRIBERS && !isScheduled) {
    return createResolvedAudience(await mergeSubscribers(store, app, tokenRecipients, topics));
  }
  const total = tokenRecipients.length + subscriberCount;
  const isEstimate =
    total > MAX_EXACT_COUNT || (tokenRecipients.length === 0 && topics.length === 1);
  return {
    recipients: tokenRecipients,
    // A topic that is empty now may have subscribers when a scheduled push is due.
    topics: isScheduled ? request.topics : topics,
    devices: isEstimate
      ? total
      : (await mergeSubscribers(store, app, tokenRecipients, topics)).length,
    hasIos: tokenRecipients.some(isIos) || topics.some((topic) => counters.get(topic)?.hasIos),
  };
}

function createResolvedAudience(recipients: Recipient[]): Audience {
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

async function findTokenRecipients(
  { devices }: AudienceStore,
  app: string,
  tokens: readonly string[],
): Promise<Recipient[]> {
  const [onlyToken] = tokens;
  if (onlyToken === undefined) return [];
  if (tokens.length > 1) return devices.findRecipients(app, tokens);
  const device = await devices.findRecipient(app, onlyToken);
  return device === undefined ? [] : [device];
}

async function mergeSubscribers(
  { subscriptions }: AudienceStore,
  app: string,
  tokenRecipients: readonly Recipient[],
  topics: readonly string[],
): Promise<Recipient[]> {
  const byToken = new Map(tokenRecipients.map((recipient) => [recipient.token, recipient]));
  for (const topic of topics) {
    for await (const recipient of subscriptions.stream(app, topic, '')) {
      if (byToken.size > MAX_EXACT_COUNT + LIMITS.tokensPerPush) break;
      byToken.set(recipient.token, recipient);
    }
  }
  return [...byToken.values()];
}
