import type { Channel } from '@carillon/core/platforms';
import type { ClaimedFanOut, StepEnd } from '@carillon/store/fan-outs';
import type { Paged } from './page-topics.ts';

/** Batches of one push that are released and not closed: a big push never fills the queue of the others. */
const OPEN_BATCHES = 64;
const NEXT_STEP_MS = 50;
const LEASE_MS = 6_000;
/** A step writes nothing when less of its lease may be left. */
const MARGIN_MS = 2_000;

/** What fanning out needs. */
export interface FanOutDeps {
  claim(push: string, leaseMs: number): Promise<ClaimedFanOut | undefined>;
  endStep(fanOut: ClaimedFanOut, end: StepEnd): Promise<boolean>;
  release(
    push: string,
    open: number,
  ): Promise<{ released: { id: string; channel: Channel }[]; waiting: boolean; free: number }>;
  /** Makes batches of the topics' next subscribers. */
  pageTopics(fanOut: ClaimedFanOut, free: number, isSafe: () => boolean): Promise<Paged>;
  addDeliverJob(work: string, channel: Channel): Promise<void>;
  addNextStep(push: string, seq: number, delayMs: number): Promise<void>;
  addFinishJob(push: string): Promise<void>;
}

/**
 * One step of a push with many batches: releases as many as may be open, first those that wait, then pages of its
 * topics, and adds itself again until nothing is left. Each write may be repeated; a batch released without a job
 * is found by the reconciler.
 */
export async function fanOutStep(deps: FanOutDeps, push: string): Promise<void> {
  const before = performance.now();
  const fanOut = await deps.claim(push, LEASE_MS);
  if (fanOut === undefined) return;
  const isSafe = (): boolean => performance.now() - before < LEASE_MS - MARGIN_MS;
  const { released, waiting, free } = await deps.release(push, OPEN_BATCHES);
  await Promise.all(released.map(({ id, channel }) => deps.addDeliverJob(id, channel)));
  const { isLeft, cursor }: Paged = waiting
    ? { isLeft: true }
    : await deps.pageTopics(fanOut, free, isSafe);
  const at = cursor ? { cursor } : {};
  if (!isLeft) {
    await deps.endStep(fanOut, { ...at, done: true });
    return deps.addFinishJob(push);
  }
  const isMine = await deps.endStep(fanOut, { ...at, done: false, delayMs: NEXT_STEP_MS });
  if (isMine) await deps.addNextStep(push, fanOut.push.fan.seq + 1, NEXT_STEP_MS);
}
