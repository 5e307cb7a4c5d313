import type { Size, StackFixture } from '../support/fixture.ts';
import { measureMedian, runConcurrently, warmUp } from '../support/load-patterns.ts';
import { measureAlternately, ratioRow } from '../support/statistics.ts';
import type { Row } from '../table.ts';
import { createPushFloor } from './push-floor.ts';

const ROUNDS = 5;
/** Pushes in flight. */
const LOADS = [20, 100];
/** Enough devices that no inbox becomes full. */
const DEVICES = 500;
/** Pushes in flight during the warm-up. */
const WARM_UP_PUSHES = 100;
const PUSHES: Record<Size, number> = { quick: 1_500, usual: 5_000, full: 10_000 };
const SINGLE_PUSHES: Record<Size, number> = { quick: 100, usual: 400, full: 1_000 };

/** Measures accepted single pushes per second with many requests in flight. The devices are offline. */
export async function accept(fixture: StackFixture, size: Size): Promise<Row[]> {
  const sendOne = await createSender(fixture);
  const insertOne = createPushFloor(fixture.mongo, fixture.stack.dev.app);
  await warmUp(() => runConcurrently(WARM_UP_PUSHES, WARM_UP_PUSHES, sendOne));
  await fixture.untilIdle();
  const rows: Row[] = [];
  for (const inFlight of LOADS) {
    const rounds = await measureAlternately(
      ROUNDS + 1,
      () => measurePerSecond(PUSHES[size], inFlight, insertOne),
      async () => {
        const rate = await measurePerSecond(PUSHES[size], inFlight, sendOne);
        await fixture.untilIdle();
        return rate;
      },
    );
    const what = `accept: pushes a second against one journaled insert each, ${inFlight} in flight`;
    const options = { unit: '/s', ratio: 'ours/floor' } as const;
    rows.push(ratioRow(what, rounds.slice(1), options));
  }
  return rows;
}

/** Measures the latency of a single push until its 200. */
export async function acceptOne(fixture: StackFixture, size: Size): Promise<Row[]> {
  const sendOne = await createSender(fixture);
  const insertOne = createPushFloor(fixture.mongo, fixture.stack.dev.app);
  const rounds = await measureAlternately(
    ROUNDS + 1,
    () => measureMedian(SINGLE_PUSHES[size], insertOne),
    async () => {
      const ms = await measureMedian(SINGLE_PUSHES[size], sendOne);
      await fixture.untilIdle();
      return ms;
    },
  );
  const what = 'accept-one: p50 of a lone push against a journaled insert';
  return [ratioRow(what, rounds.slice(1), { unit: 'ms', ratio: 'ours/floor' })];
}

async function createSender({
  audience,
  request,
  call,
}: StackFixture): Promise<() => Promise<void>> {
  const requests = (await audience.register(DEVICES)).map((to) =>
    request('POST', '/push', JSON.stringify({ to, data: { message: 'Hello' } })),
  );
  let next = 0;
  return async () => {
    next += 1;
    const bytes = requests[next % requests.length];
    if (bytes !== undefined) await call(bytes);
  };
}

async function measurePerSecond(
  count: number,
  inFlight: number,
  sendOnce: () => Promise<void>,
): Promise<number> {
  const startedAt = performance.now();
  await runConcurrently(count, inFlight, sendOnce);
  return (count * 1_000) / (performance.now() - startedAt);
}
