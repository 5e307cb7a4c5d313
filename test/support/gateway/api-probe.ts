import { setTimeout as sleep } from 'node:timers/promises';
import type { Stack } from '../stack.ts';

const INTERVAL_MS = 40;

/** Single pushes sent one after another, and how long the API took for each. */
export interface ApiProbe {
  /** Milliseconds. */
  latenciesMs: number[];
  /** Names of the pushes that were accepted, for the report of the fleet. */
  accepted: string[];
  /** Statuses of responses other than 200. */
  failures: number[];
  stop(): Promise<void>;
}

/** Sends single pushes to these devices by turns, until stopped. */
export function startApiProbe(stack: Stack, tokens: readonly string[], prefix: string): ApiProbe {
  const probe = { latenciesMs: [], accepted: [], failures: [] } as Omit<ApiProbe, 'stop'>;
  let isStopped = false;

  async function sendOne(n: number): Promise<void> {
    const name = `${prefix} ${n}`;
    const to = tokens[(n * 7_919) % tokens.length];
    const startedAt = performance.now();
    const { status } = await stack.api('POST', '/push', { to, data: { name, sentAt: Date.now() } });
    probe.latenciesMs.push(performance.now() - startedAt);
    if (status === 200) probe.accepted.push(name);
    else probe.failures.push(status);
  }

  async function run(): Promise<void> {
    for (let n = 0; !isStopped; n += 1) {
      await sendOne(n);
      await sleep(INTERVAL_MS);
    }
  }

  const running = run();
  return {
    ...probe,
    async stop() {
      isStopped = true;
      await running;
    },
  };
}

/** The value below which a share of all values are; 0.99 for p99. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
