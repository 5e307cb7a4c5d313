import { LIMITS } from '@carillon/core/limits';
import { CHANNELS, type Channel, channelOf } from '@carillon/core/platforms';
import { splitTokens } from '@carillon/core/work';
import type { BatchDocument } from '@carillon/store/documents';
import type { ClaimedFanOut } from '@carillon/store/fan-outs';
import { batchOf } from '@carillon/store/new-work';
import type { Subscriber } from '@carillon/store/subscriptions';
import { mergeSubscribers } from './merge-subscribers.ts';

/** What paging needs. */
export interface PageDeps {
  beginPage(
    fanOut: ClaimedFanOut,
    page: { from: string; to: string; next: number },
  ): Promise<boolean>;
  insertPage(batches: readonly BatchDocument[]): Promise<void>;
  subscribers(app: string, topic: string, after: string): AsyncIterable<Subscriber>;
  addDeliverJob(work: string, channel: Channel): Promise<void>;
}

/** What one step of paging came to. */
export interface Paged {
  isLeft: boolean;
  cursor?: { from: string; next: number };
}

interface Page {
  from: string;
  to: string;
  next: number;
  subscribers: Subscriber[];
}

/**
 * Turns the next pages of the topics' subscribers into batches, at most `free` of them. Tokens named besides have
 * batches of their own and are left out.
 *
 * @param isSafe whether the claim surely still holds
 * @returns whether any page is left, and the end of the last page whose batches are kept
 */
export async function pageTopics(
  deps: PageDeps,
  fanOut: ClaimedFanOut,
  free: number,
  isSafe: () => boolean,
): Promise<Paged> {
  const { push } = fanOut;
  const named = new Set(splitTokens(push.audience?.tokens ?? ''));
  const paged: Paged = { isLeft: false };
  let left = free;
  for await (const page of pagesOf(deps, fanOut)) {
    const batches = batchesOf(push, page, named);
    if (left < batches.length || !isSafe()) return { ...paged, isLeft: true };
    const isBegun = page.from === (push.fan.from ?? '') && page.to === push.fan.to;
    if (!isBegun && !(await deps.beginPage(fanOut, page))) return { ...paged, isLeft: true };
    await deps.insertPage(batches);
    await Promise.all(batches.map(({ _id, work }) => deps.addDeliverJob(_id, work.channel)));
    left -= batches.length;
    paged.cursor = { from: page.to, next: page.next + CHANNELS.length };
  }
  return paged;
}

/** Pages from where the fan-out stands; one that was begun keeps its range, whoever has joined or left since. */
async function* pagesOf(deps: PageDeps, { push }: ClaimedFanOut): AsyncGenerator<Page> {
  const { from = '', to, next } = push.fan;
  const topics = push.audience?.topics ?? [];
  const streams = topics.map((topic) => deps.subscribers(push.app, topic, from));
  let page: Page = { from, to: to ?? '', next, subscribers: [] };
  let isBegun = to !== undefined;
  for await (const subscriber of mergeSubscribers(streams)) {
    const isFull = isBegun
      ? subscriber.token > page.to
      : page.subscribers.length === LIMITS.batchRecipients;
    if (isFull) {
      yield page;
      page = { from: page.to, to: '', next: page.next + CHANNELS.length, subscribers: [] };
      isBegun = false;
    }
    page.subscribers.push(subscriber);
    if (!isBegun) page.to = subscriber.token;
  }
  if (page.subscribers.length > 0) yield page;
}

/** A batch for each channel of the page, its number fixed by the page and the channel. */
function batchesOf(
  push: ClaimedFanOut['push'],
  page: Page,
  named: ReadonlySet<string>,
): BatchDocument[] {
  const byChannel = new Map<Channel, string[]>();
  for (const { token, platform } of page.subscribers) {
    if (named.has(token)) continue;
    const channel = channelOf(platform);
    const tokens = byChannel.get(channel);
    if (tokens === undefined) byChannel.set(channel, [token]);
    // A range that has gained subscribers since it was begun still makes batches of the usual size.
    else if (tokens.length < LIMITS.batchRecipients) tokens.push(token);
  }
  return [...byChannel].map(([channel, tokens]) =>
    batchOf(push, channel, tokens, page.next + CHANNELS.indexOf(channel), 'ready'),
  );
}
