import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { deviceAuth, parseDeviceAuthKeys } from '../../../packages/core/src/device-auth.ts';
import type { Stack } from '../stack.ts';
import { until } from '../until.ts';
import type { HerdOrder, HerdReport } from './herd-process.ts';

/** Thousands of lean devices, played by a process of their own. */
export interface Herd {
  /** Breaks all links at the same moment; each device comes back at once. */
  cut(): void;
  /** The first `count` devices read nothing more. */
  freeze(count: number): void;
  thaw(): void;
  report(): Promise<HerdReport>;
  /** Waits until all are connected; gives the milliseconds it took. */
  untilConnected(timeoutMs?: number): Promise<number>;
  stop(): Promise<void>;
}

/** Connects registered devices. */
export function startHerd(stack: Stack, tokens: readonly string[]): Herd {
  const child = fork(fileURLToPath(new URL('herd-process.ts', import.meta.url)), { execArgv: [] });
  const { hostname, port } = new URL(stack.dev.mqtt);
  const authOf = readAuth(stack);
  const devices = tokens.map((token) => ({ token, auth: authOf(token) }));
  const order = (one: HerdOrder) => void child.send(one);
  const report = () => askReport(child);
  order({ do: 'open', devices, host: hostname, port: Number(port) });

  return {
    cut: () => order({ do: 'cut' }),
    freeze: (count) => order({ do: 'freeze', count }),
    thaw: () => order({ do: 'thaw' }),
    report,
    async untilConnected(timeoutMs = 60_000) {
      const startedAt = performance.now();
      const areConnected = async () => (await report()).connected === tokens.length;
      await until(areConnected, { timeoutMs, everyMs: 100, what: 'the whole herd connected' });
      return performance.now() - startedAt;
    },
    async stop() {
      if (child.exitCode !== null) return;
      const ended = once(child, 'exit');
      child.disconnect();
      await ended;
    },
  };
}

async function askReport(child: ChildProcess): Promise<HerdReport> {
  const answered = once(child, 'message');
  child.send({ do: 'report' } satisfies HerdOrder);
  const [report] = (await answered) as [HerdReport];
  return report;
}

function readAuth(stack: Stack): (token: string) => string {
  const text = readFileSync(`${stack.home}/secrets.json`, 'utf8');
  const { deviceAuthKeys } = JSON.parse(text) as { deviceAuthKeys: string };
  const keys = parseDeviceAuthKeys(deviceAuthKeys);
  return (token) => deviceAuth(keys, token);
}
