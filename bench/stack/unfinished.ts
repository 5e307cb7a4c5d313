import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Size, StackFixture } from '../support/fixture.ts';
import { runAtRate } from '../support/load-patterns.ts';
import { measureAlternately, percentile, ratioRow } from '../support/statistics.ts';
import type { Row } from '../table.ts';
import type { Attack } from './unfinished-process.ts';

const ROUNDS = 5;
const SECONDS: Record<Size, number> = { quick: 5, usual: 15, full: 30 };
const RATE = 100;
const DEVICES = 500;
const MEGABYTE = 1_048_576;

/** Measures the p99 latency of a client with the attacker's API key and address during an attack with unfinished bodies. */
export async function unfinished(fixture: StackFixture, size: Size): Promise<Row[]> {
  const { api, apiKey } = fixture.stack.dev;
  const push = { url: `${api}/push?api_key=${apiKey}`, count: 9, bytes: 8 * MEGABYTE };
  const register = { url: `${api}/register`, count: 4_277, bytes: 16 * 1_024 };
  const send = await createSender(fixture);
  const measure = async () => {
    const latencies = await measureP99(send, SECONDS[size]);
    await fixture.untilIdle();
    return latencies;
  };
  return [
    await compareUnderAttack('nine of 8 MB behind its key', push, measure),
    await compareUnderAttack('4,277 of 16 KB behind its address', register, measure),
  ];
}

async function compareUnderAttack(
  what: string,
  attack: Attack,
  measure: () => Promise<number>,
): Promise<Row> {
  const rounds = await measureAlternately(ROUNDS + 1, measure, () =>
    runUnderAttack(attack, measure),
  );
  const row = `unfinished: p99 of pushes and registrations against ${what}`;
  // The first round warms up the compiler.
  return ratioRow(row, rounds.slice(1), {
    unit: 'ms',
    goal: { atMost: 2 },
    ratio: 'ours/floor',
  });
}

async function runUnderAttack<T>(attack: Attack, task: () => Promise<T>): Promise<T> {
  const script = fileURLToPath(new URL('unfinished-process.ts', import.meta.url));
  const child: ChildProcess = fork(script);
  try {
    const isReady = once(child, 'message');
    child.send(attack);
    await isReady;
    return await task();
  } finally {
    const ended = once(child, 'exit');
    child.disconnect();
    await ended;
  }
}

/** @throws when one of them fails */
async function measureP99(send: () => Promise<unknown>, seconds: number): Promise<number> {
  const latencies: number[] = [];
  await runAtRate(RATE, RATE * seconds, async (_, dueAt) => {
    await send();
    latencies.push(performance.now() - dueAt);
  });
  return percentile(latencies, 0.99);
}

/** Alternates pushes and registrations. */
async function createSender({ audience, request, call, stack }: StackFixture) {
  const body = (to: string) => JSON.stringify({ to, data: { message: 'Hello' } });
  const pushes = (await audience.register(DEVICES)).map((to) => request('POST', '/push', body(to)));
  const device = JSON.stringify({ appId: stack.dev.app, platform: 'electron' });
  const register = request('POST', '/register', device);
  let next = 0;
  return () => {
    next += 1;
    return call(next % 4 === 0 ? register : (pushes[next % pushes.length] ?? register));
  };
}
