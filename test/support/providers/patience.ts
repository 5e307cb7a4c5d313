import type { Received } from './sandbox.ts';

/** A try that came sooner than the answer before it had asked for. */
export interface Hasty {
  to: string;
  afterMs: number;
}

/** So many are enough to see what is wrong. */
const SHOWN = 5;

/**
 * The first tries that came too soon after an answer of that status.
 *
 * @param received in order
 * @param waitMs what the answers to an address asked for
 */
export function hastyAmong(
  received: readonly Received[],
  status: number,
  waitMs: (to: string) => number,
): Hasty[] {
  const refusedAt = new Map<string, number>();
  const hasty: Hasty[] = [];
  for (const { to, at, status: answered } of received) {
    const before = refusedAt.get(to);
    if (before !== undefined && at - before < waitMs(to)) hasty.push({ to, afterMs: at - before });
    if (answered === status) refusedAt.set(to, at);
    else refusedAt.delete(to);
  }
  return hasty.slice(0, SHOWN);
}

/** A try that came later than it should. */
export interface Late extends Hasty {
  /** The how manieth try of the address was before it. */
  times: number;
}

/**
 * The first tries that came too late.
 *
 * @param received in order
 * @param mostMs by how often the address was asked already
 */
export function lateAmong(
  received: readonly Received[],
  mostMs: (times: number) => number,
): Late[] {
  const asked = new Map<string, { times: number; at: number }>();
  const late: Late[] = [];
  for (const { to, at } of received) {
    const { times = 0, at: before = at } = asked.get(to) ?? {};
    if (times > 0 && at - before > mostMs(times)) late.push({ to, afterMs: at - before, times });
    asked.set(to, { times: times + 1, at });
  }
  return late.slice(0, SHOWN);
}

/** How often each address was asked. */
export function timesAsked(received: readonly Pick<Received, 'to'>[]): number[] {
  const times = new Map<string, number>();
  for (const { to } of received) times.set(to, (times.get(to) ?? 0) + 1);
  return [...times.values()];
}
