import { setTimeout as sleep } from 'node:timers/promises';
import type { Stack } from '../stack.ts';

const EVERY_MS = 40;

/** Single pushes sent one after another, and how long the API took for each. */
export interface ApiPulse {
  /** Milliseconds. */
  latenciesMs: number[];
  /** Names of the pushes that were accepted, for the herd's report. */
  accepted: string[];
  /** What was answered instead of 200. */
  failures: number[];
  stop(): Promise<void>;
}

/** Sends single pushes to these devices by turns, until stopped. */
export function startApiPulse(stack: Stack, tokens: readonly string[], prefix: string): ApiPulse {
  const pulse = { latenciesMs: [], accepted: [], failures: [] } as Omit<ApiPulse, 'stop'>;
  let isStopped = false;

  async function beat(n: number): Promise<void> {
    const name = `${prefix} ${n}`;
    const to = tokens[(n * 7_919) % tokens.length];
    const startedAt = performance.now();
    const { status } = await stack.api('POST', '/push', { to, data: { name, sentAt: Date.now() } });
    pulse.latenciesMs.push(performance.now() - startedAt);
    if (status === 200) pulse.accepted.push(name);
    else pulse.failures.push(status);
  }

  async function go(): Promise<void> {
    for (let n = 0; !isStopped; n += 1) {
      await beat(n);
      await sleep(EVERY_MS);
    }
  }

  const going = go();
  return {
    ...pulse,
    async stop() {
      isStopped = true;
      await going;
    },
  };
}

/** The value below which a share of all values are; 0.99 for p99. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
