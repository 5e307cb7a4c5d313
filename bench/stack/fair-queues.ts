import { createAudience } from '../support/audience.ts';
import { connectDevices } from '../support/connected-devices.ts';
import type { Size, StackFixture } from '../support/fixture.ts';
import { runConcurrently } from '../support/load-patterns.ts';
import { addTenant } from '../support/stack.ts';
import { percentile, valueRow } from '../support/statistics.ts';
import { until } from '../support/until.ts';
import type { Row } from '../table.ts';
import { measureLatencies } from './one-device.ts';

/** Single pushes of the app that causes the backlog, and of each of the others. */
const PUSHES: Record<Size, { large: number; other: number }> = {
  quick: { large: 10_000, other: 200 },
  usual: { large: 50_000, other: 1_000 },
  full: { large: 50_000, other: 1_000 },
};
const OTHERS = 10;
const DEVICES = 50;
const IN_FLIGHT = 100;
/** About as many as beside the backlog: a p99 of more values is higher. */
const ALONE_SECONDS = 25;
/** A small app's pushes, one a second, for longer than a backlog lasts. */
const MAX_SMALL_PUSHES = 600;
const TIMEOUT_MS = 300_000;

/**
 * Measures how long the pushes of a small app take while others have a backlog: the worker is suspended until one app has
 * sent tens of thousands of single pushes and ten others a thousand each. The push of the moment in which it goes on has a
 * row of its own: it shows how long the worker takes to go on.
 */
export async function fairQueues(fixture: StackFixture, size: Size): Promise<Row[]> {
  const { large: largeCount, other: otherCount } = PUSHES[size];
  const small = await openTenant(fixture);
  const large = await openTenant(fixture);
  const others = await Promise.all(Array.from({ length: OTHERS }, () => openTenant(fixture)));
  const tenants = [small, large, ...others];
  try {
    const alone = await measureLatencies(small.fixture, small.devices, 1, ALONE_SECONDS);
    const workers = fixture.stack.dev.processes.filter(
      ({ service }) => service === 'delivery-worker',
    );
    for (const { pid } of workers) process.kill(pid, 'SIGSTOP');
    try {
      await large.send(largeCount);
      await Promise.all(others.map((other) => other.send(otherCount)));
    } finally {
      for (const { pid } of workers) process.kill(pid, 'SIGCONT');
    }
    const startedAt = performance.now();
    const isDone = () => large.arrived() >= largeCount;
    const [atOnce = 0] = await measureLatencies(small.fixture, small.devices, 1, 1);
    const beside = measureLatencies(small.fixture, small.devices, 1, MAX_SMALL_PUSHES, isDone);
    const ends = await Promise.all(
      others.map(async (other) => {
        await until('the pushes of an app', () => other.arrived() >= otherCount, {
          timeoutMs: TIMEOUT_MS,
          everyMs: 5,
        });
        return performance.now() - startedAt;
      }),
    );
    const largeMs = await measureEnd(startedAt, isDone);
    return toRows({ alone, atOnce, beside: await beside, ends, largeMs });
  } finally {
    for (const { devices } of tenants) devices.close();
    await fixture.untilIdle();
  }
}

async function measureEnd(startedAt: number, isDone: () => boolean): Promise<number> {
  await until('the pushes of the large app', isDone, { timeoutMs: TIMEOUT_MS, everyMs: 5 });
  return performance.now() - startedAt;
}

/** Creates an app with connected devices. */
async function openTenant(fixture: StackFixture) {
  const stack = await addTenant(fixture.stack);
  const own: StackFixture = {
    ...fixture,
    stack,
    audience: createAudience(stack, fixture.mongo),
    request: (method, path, body) => fixture.request(method, path, body, stack.dev.apiKey),
  };
  const devices = await connectDevices(own, DEVICES);
  let arrived = 0;
  return {
    fixture: own,
    devices,
    arrived: () => arrived,
    /** Sends pushes to one device each. */
    async send(count: number): Promise<void> {
      await runConcurrently(count, IN_FLIGHT, async (n) => {
        const to = devices.tokens[n % devices.tokens.length] ?? '';
        const mark = `${to}-${n}`;
        void devices.waitForArrival(mark).then(() => {
          arrived += 1;
        });
        await own.call(own.request('POST', '/push', JSON.stringify({ to, data: { mark } })));
      });
    },
  };
}

function toRows({
  alone,
  atOnce,
  beside,
  ends,
  largeMs,
}: {
  alone: readonly number[];
  atOnce: number;
  beside: readonly number[];
  ends: readonly number[];
  largeMs: number;
}): Row[] {
  const row = (what: string, value: number, unit: string) =>
    valueRow(`fair-queues: ${what}`, [value], { unit });
  const [p99Alone, p99Beside] = [percentile(alone, 0.99), percentile(beside, 0.99)];
  return [
    row('p99 of an app with a push a second, alone', p99Alone, 'ms'),
    row('p99 of it beside the backlog of others', p99Beside, 'ms'),
    row('its push in the moment when the worker goes on', atOnce, 'ms'),
    row('p50 of it beside the backlog of others', percentile(beside, 0.5), 'ms'),
    row('its pushes beside the backlog', beside.length, 'pushes'),
    row('last of ten equal apps, against the first', Math.max(...ends) / Math.min(...ends), 'x'),
    row('end of the ten apps', Math.max(...ends), 'ms'),
    row('end of the large app', largeMs, 'ms'),
  ];
}
