import { joinTokens, splitTokens } from '@carillon/core/batch';
import {
  BATCH_NUMBERS_PER_PAGE,
  type Channel,
  channelNumber,
  findChannel,
} from '@carillon/core/channels';
import { failpoint } from '@carillon/core/failpoint';
import { LIMITS } from '@carillon/core/limits';
import type { Tracer } from '@carillon/core/tracing';
import type { PresenceReader } from '@carillon/presence/presence-reader';
import type { Producers } from '@carillon/queue/producers';
import { createBatchDocument } from '@carillon/store/create-batches';
import type { BatchDocument } from '@carillon/store/documents';
import type { ClaimedFanOut } from '@carillon/store/fan-outs';
import type { Store } from '@carillon/store/store';
import type { Subscriber } from '@carillon/store/subscriptions';
import type { GetAppSettings } from '../deliver/app-settings.ts';

/** Delay of the next step while something is left. */
const NEXT_STEP_DELAY_MS = 50;
/** Delay until a worker of a newer release may take the page. */
const NEWER_RELEASE_DELAY_MS = 1_000;
/** Lease of a step. */
const LEASE_MS = 6_000;
/** Minimum rest of its lease with which a step writes. */
const LEASE_MARGIN_MS = 2_000;

/** The parts of the store and the queue that a fan-out uses. */
export interface FanOutResources {
  store: Pick<Store, 'fanOuts' | 'batches' | 'subscriptions' | 'devices'>;
  producers: Pick<Producers, 'deliver' | 'fanOut' | 'checkCompletion'>;
  getAppSettings: GetAppSettings;
  presenceReader: Pick<PresenceReader, 'areOnline'>;
  /** Most batches of one push that are released and not closed: a large push never fills the queue of the others. */
  maxOpenBatches: number;
  /** Records a span for each step of a traced push. */
  tracer?: Tracer | undefined;
}

/** Result of one step of paging. */
interface PagingResult {
  /** `newer-release`: the next page has devices of a platform that only a newer release knows. */
  end: 'done' | 'more' | 'newer-release';
  /** End of the last page whose batches are stored. */
  cursor?: { from: string; next: number };
}

interface Page {
  from: string;
  to: string;
  next: number;
  subscribers: Subscriber[];
}

/**
 * Runs one step of a push with many batches. Releases as many batches as may be open: first the waiting ones, then
 * those of its topics, page by page. Adds the next step until nothing is left. Each write may be repeated; the
 * reconciler finds a batch that was released without a job.
 */
export async function fanOutStep(resources: FanOutResources, push: string): Promise<void> {
  const { store, tracer } = resources;
  const startedAt = performance.now();
  const fanOut = await store.fanOuts.claim(push, LEASE_MS);
  if (fanOut === undefined) return;
  const attributes = { 'carillon.push.id': push };
  const span = tracer?.continueTrace('fan out', fanOut.push.trace, startedAt, attributes);
  try {
    await runStep(resources, fanOut, startedAt);
  } finally {
    span?.end();
  }
}

async function runStep(
  resources: FanOutResources,
  fanOut: ClaimedFanOut,
  startedAt: number,
): Promise<void> {
  const { store, producers, maxOpenBatches } = resources;
  const { _id: push, app, fan } = fanOut.push;
  const isLeaseValid = (): boolean => performance.now() - startedAt < LEASE_MS - LEASE_MARGIN_MS;
  const { released, waiting, free } = await store.batches.release(push, maxOpenBatches);
  failpoint('release');
  await Promise.all(released.map((batch) => producers.deliver({ ...batch, app })));
  const { end, cursor } = waiting
    ? { end: 'more' as const }
    : await pageTopics(resources, fanOut, free, isLeaseValid);
  const progress = cursor ? { cursor } : {};
  if (end === 'done') {
    await store.fanOuts.endStep(fanOut, { ...progress, done: true });
    return producers.checkCompletion([push]);
  }
  const delayMs = end === 'newer-release' ? NEWER_RELEASE_DELAY_MS : NEXT_STEP_DELAY_MS;
  const isClaimHeld = await store.fanOuts.endStep(fanOut, { ...progress, done: false, delayMs });
  if (isClaimHeld) await producers.fanOut({ app, id: push, seq: fan.seq + 1, delayMs });
}

/**
 * Turns the next pages of the topics' subscribers into batches, at most `free` of them. Tokens that the push names
 * itself have batches of their own and are left out.
 *
 * @param isLeaseValid whether the claim surely still holds
 */
export async function pageTopics(
  resources: Omit<FanOutResources, 'maxOpenBatches' | 'tracer'>,
  fanOut: ClaimedFanOut,
  free: number,
  isLeaseValid: () => boolean,
): Promise<PagingResult> {
  const { store, producers } = resources;
  const { push } = fanOut;
  const explicitTokens = new Set(splitTokens(push.audience?.tokens ?? ''));
  let progress: Pick<PagingResult, 'cursor'> = {};
  let remaining = free;
  for await (const fullPage of readPages(store, fanOut)) {
    const page = await leaveOutInactive(resources, push, fullPage);
    const isStarted = page.from === (push.fan.from ?? '') && page.to === push.fan.to;
    const byFcm = isStarted ? push.fan.byFcm : await findByFcm(resources, push.app, page);
    const tokensByFcm = new Set(splitTokens(byFcm ?? ''));
    const batches = createPageBatches(fanOut, page, explicitTokens, tokensByFcm);
    if (batches === undefined) return { ...progress, end: 'newer-release' };
    if (remaining < batches.length || !isLeaseValid()) return { ...progress, end: 'more' };
    const begun = { ...page, ...(byFcm !== undefined && { byFcm }) };
    if (!isStarted && !(await store.fanOuts.beginPage(fanOut, begun)))
      return { ...progress, end: 'more' };
    failpoint('page');
    await store.batches.insertIfAbsent(batches);
    failpoint('page-inserted');
    await Promise.all(
      batches.map(({ _id: id, app, work: { channel, n: recipients } }) =>
        producers.deliver({ app, id, channel, recipients }),
      ),
    );
    remaining -= batches.length;
    progress = { cursor: { from: page.to, next: page.next + BATCH_NUMBERS_PER_PAGE } };
  }
  return { ...progress, end: 'done' };
}

/**
 * Leaves out the subscribers that were not seen within the time that the push is limited to: their stored time is older, and they
 * are not connected. A page that is repeated may leave out others; a batch that is stored stays.
 */
async function leaveOutInactive(
  { store, presenceReader }: Pick<FanOutResources, 'store' | 'presenceReader'>,
  { app, audience, acceptedAt, dueAt = acceptedAt }: ClaimedFanOut['push'],
  page: Page,
): Promise<Page> {
  const seconds = audience?.activeWithinSeconds;
  if (seconds === undefined) return page;
  const sinceMs = dueAt.getTime() - seconds * 1_000;
  const tokens = page.subscribers.map(({ token }) => token);
  const seen = await store.devices.findLastSeen(app, tokens);
  const active = new Set(seen.filter(({ at }) => at >= sinceMs).map(({ token }) => token));
  const others = tokens.filter((token) => !active.has(token));
  const online = await presenceReader.areOnline(others);
  for (const [index, token] of others.entries()) if (online[index] === true) active.add(token);
  return { ...page, subscribers: page.subscribers.filter(({ token }) => active.has(token)) };
}

/** Finds the subscribers of a page that go by FCM, joined; undefined if none does. */
async function findByFcm(
  { store, getAppSettings }: Pick<FanOutResources, 'store' | 'getAppSettings'>,
  app: string,
  { subscribers }: Page,
): Promise<string | undefined> {
  const { fcm, hasFcm } = await getAppSettings(app);
  const usesFcm = fcm !== undefined && hasFcm;
  const recipients = await store.devices.addWays(app, subscribers, usesFcm);
  const tokens = recipients.flatMap(({ token, way }) => (way === 'fcm' ? [token] : []));
  return tokens.length === 0 ? undefined : joinTokens(tokens);
}

/** Reads pages from the cursor on; a page that was begun keeps its range when devices have joined or left since. */
async function* readPages(
  { subscriptions }: Pick<Store, 'subscriptions'>,
  { push }: ClaimedFanOut,
): AsyncGenerator<Page> {
  const { from = '', to, next } = push.fan;
  const topics = push.audience?.topics ?? [];
  const streams = topics.map((topic) => subscriptions.stream(push.app, topic, from));
  let page: Page = { from, to: to ?? '', next, subscribers: [] };
  let isStarted = to !== undefined;
  for await (const subscriber of mergeSubscribers(streams)) {
    const isFull = isStarted
      ? subscriber.token > page.to
      : page.subscribers.length === LIMITS.batchRecipients;
    if (isFull) {
      yield page;
      page = {
        from: page.to,
        to: '',
        next: page.next + BATCH_NUMBERS_PER_PAGE,
        subscribers: [],
      };
      isStarted = false;
    }
    page.subscribers.push(subscriber);
    if (!isStarted) page.to = subscriber.token;
  }
  if (page.subscribers.length > 0) yield page;
}

/**
 * Creates a batch for each channel of the page. Batches are numbered by the page and the channel, so that a page done
 * twice, also by workers of two releases, makes the same batches.
 *
 * @returns undefined if a platform is of a newer release, whose worker does the page
 */
function createPageBatches(
  { push, claimedAt }: ClaimedFanOut,
  page: Page,
  explicitTokens: ReadonlySet<string>,
  tokensByFcm: ReadonlySet<string>,
): BatchDocument[] | undefined {
  const byChannel = new Map<Channel, string[]>();
  for (const { token, platform } of page.subscribers) {
    if (explicitTokens.has(token)) continue;
    const channel = tokensByFcm.has(token) ? 'fcm' : findChannel(platform);
    if (channel === undefined) return undefined;
    const tokens = byChannel.get(channel);
    if (tokens === undefined) byChannel.set(channel, [token]);
    // A range that has gained subscribers since it was begun still makes batches of the usual size.
    else if (tokens.length < LIMITS.batchRecipients) tokens.push(token);
  }
  return [...byChannel].map(([channel, tokens]) =>
    // Due since the claim: by MongoDB's clock, so that a worker can claim it as soon as it has the job.
    createBatchDocument(
      push,
      channel,
      tokens,
      page.next + channelNumber(channel),
      'ready',
      claimedAt,
    ),
  );
}

/** Merges streams in order of token, each token once. Compares the heads of all streams each time: topics are few. */
export async function* mergeSubscribers(
  streams: readonly AsyncIterable<Subscriber>[],
): AsyncGenerator<Subscriber> {
  const iterators = streams.map((stream) => stream[Symbol.asyncIterator]());
  try {
    const heads = await Promise.all(iterators.map(readNext));
    for (;;) {
      let lowest: Subscriber | undefined;
      for (const head of heads) {
        if (head !== undefined && (lowest === undefined || head.token < lowest.token))
          lowest = head;
      }
      if (lowest === undefined) return;
      yield lowest;
      for (const [index, iterator] of iterators.entries()) {
        if (heads[index]?.token === lowest.token) heads[index] = await readNext(iterator);
      }
    }
  } finally {
    await Promise.all(iterators.map((iterator) => iterator.return?.()));
  }
}

async function readNext(iterator: AsyncIterator<Subscriber>): Promise<Subscriber | undefined> {
  const { done, value } = await iterator.next();
  return done ? undefined : value;
}
