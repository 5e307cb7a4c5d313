import { setTimeout as sleep } from 'node:timers/promises';
import type { Size, StackFixture } from '../support/fixture.ts';
import { runAtRate } from '../support/load-patterns.ts';
import { percentile, summarize } from '../support/statistics.ts';
import { median, type Row } from '../table.ts';

const ROUNDS: Record<Size, number> = { quick: 1, usual: 5, full: 5 };
const SECONDS: Record<Size, number> = { quick: 10, usual: 20, full: 60 };
const PER_SECOND = 50;
/** Enough devices that no inbox becomes full. */
const DEVICES = 500;
/** Time in which the services reconnect to Redis. */
const RECONNECTED_MS = 5_000;

/** A round of pushes that are sent while Redis does not respond. */
interface Round {
  answeredMs: number[];
  failed: number;
}

/** Measures the time to the 200 of a push while Redis is suspended: a process that has ended refuses connections sooner. */
export async function redisAway(fixture: StackFixture, size: Size): Promise<Row[]> {
  const { audience, stack, request } = fixture;
  const requests = (await audience.register(DEVICES)).map((to) =>
    request('POST', '/push', JSON.stringify({ to, data: { message: 'Hello' } })),
  );
  const redis = stack.dev.processes.find(({ service }) => service === 'redis');
  if (redis === undefined) throw new Error('the stack has no Redis of its own');
  const rounds: Round[] = [];
  for (let round = 0; round < ROUNDS[size]; round += 1) {
    process.kill(redis.pid, 'SIGSTOP');
    try {
      rounds.push(await sendAll(fixture, requests, SECONDS[size] * PER_SECOND));
    } finally {
      process.kill(redis.pid, 'SIGCONT');
    }
    await sleep(RECONNECTED_MS);
    await fixture.untilIdle();
  }
  const row = (share: number) => {
    const values = rounds.map(({ answeredMs }) => percentile(answeredMs, share));
    return { value: median(values), unit: 'ms', ours: summarize(values, 'ms') };
  };
  const failed = rounds.reduce((sum, one) => sum + one.failed, 0);
  return [
    { what: 'redis-away: p50 of a push', ...row(0.5) },
    { what: 'redis-away: p99 of a push', ...row(0.99), goal: { atMost: 200 } },
    { what: 'redis-away: pushes without a 200', value: failed, goal: { atMost: 0 } },
  ];
}

async function sendAll(
  { connections }: StackFixture,
  requests: readonly Buffer[],
  count: number,
): Promise<Round> {
  const round: Round = { answeredMs: [], failed: 0 };
  await runAtRate(PER_SECOND, count, async (n, dueAt) => {
    const response = await connections.send(requests[n % requests.length] as Buffer);
    if (response.status === 200) round.answeredMs.push(performance.now() - dueAt);
    else round.failed += 1;
  });
  return round;
}
