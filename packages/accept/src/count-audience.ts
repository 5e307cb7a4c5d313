import { visitInParts } from '@carillon/core/in-parts';
import { usesFcmForAndroid } from '@carillon/store/apps';
import { isWithinReach } from '@carillon/store/device-ways';
import type { Store } from '@carillon/store/store';
import { findTokenRecipients } from './accept-push.ts';
import type { PushRequest } from './parse-push.ts';

/** Maximum recipients without a device that are named. */
const MAX_NAMED = 20;

/** Number of devices that a push would have now. */
export interface AudienceCount {
  /** The topics' counters and the devices of the tokens, added up. */
  devices: number;
  /** True if a device may be counted twice: as a subscriber of several topics, or of one and by its token. */
  isAtMost: boolean;
  /** The first 20 recipients that reach no device: topics as `/topics/news`, then tokens. */
  unknown: string[];
  /** Number of all recipients that reach no device. */
  unknownCount: number;
}

/** Counts the devices of an audience as accepting a push finds them, without reading the topics' subscribers. */
export async function countAudience(
  store: Pick<Store, 'apps' | 'credentials' | 'devices' | 'topics' | 'subscriptions'>,
  app: string,
  { tokens, topics }: Pick<PushRequest, 'tokens' | 'topics'>,
): Promise<AudienceCount> {
  const isFcmOn = usesFcmForAndroid(await store.apps.find(app));
  const usesFcm = isFcmOn && (await store.credentials.has(app, 'fcm'));
  const known = new Set<string>();
  const found = await findTokenRecipients(store, app, tokens, () => undefined);
  await visitInParts(found, (one) => {
    if (isWithinReach(one, usesFcm)) known.add(one.token);
  });
  const counters = await store.topics.findCounters(app, topics);
  const countOf = (topic: string) => counters.get(topic)?.subscribers ?? 0;
  const subscribed = topics.filter((topic) => countOf(topic) > 0);
  const unknown = [
    ...topics.filter((topic) => countOf(topic) === 0).map((topic) => `/topics/${topic}`),
    ...tokens.filter((token) => !known.has(token)),
  ];
  return {
    devices: known.size + subscribed.reduce((sum, topic) => sum + countOf(topic), 0),
    isAtMost: subscribed.length + Math.min(known.size, 1) > 1,
    unknown: unknown.slice(0, MAX_NAMED),
    unknownCount: unknown.length,
  };
}
