import type { Channel } from '@carillon/core/platforms';
import type { ClaimedFanOut } from '@carillon/store/fan-outs';

/** Batches of one push that are released and not closed: a big push never fills the queue of the others. */
const OPEN_BATCHES = 64;
const NEXT_STEP_MS = 50;
const LEASE_MS = 6_000;

/** What fanning out needs. */
export interface FanOutDeps {
  claim(push: string, leaseMs: number): Promise<ClaimedFanOut | undefined>;
  endStep(
    fanOut: ClaimedFanOut,
    end: { done: true } | { done: false; delayMs: number },
  ): Promise<boolean>;
  release(
    push: string,
    open: number,
  ): Promise<{ released: { id: string; channel: Channel }[]; waiting: boolean }>;
  addDeliverJob(work: string, channel: Channel): Promise<void>;
  addNextStep(push: string, seq: number, delayMs: number): Promise<void>;
}

/**
 * One step of a push with many batches: releases as many as may be open, and adds itself again until none waits.
 * Each write may be repeated; a batch released without a job is found by the reconciler.
 */
export async function fanOutStep(deps: FanOutDeps, push: string): Promise<void> {
  const fanOut = await deps.claim(push, LEASE_MS);
  if (fanOut === undefined) return;
  const { released, waiting } = await deps.release(push, OPEN_BATCHES);
  await Promise.all(released.map(({ id, channel }) => deps.addDeliverJob(id, channel)));
  if (!waiting) {
    await deps.endStep(fanOut, { done: true });
    return;
  }
  const isMine = await deps.endStep(fanOut, { done: false, delayMs: NEXT_STEP_MS });
  if (isMine) await deps.addNextStep(push, fanOut.push.fan.seq + 1, NEXT_STEP_MS);
}
