import { setTimeout as sleep } from 'node:timers/promises';
import { createAudience } from '../support/audience.ts';
import { pushIdOf, type Size, type StackFixture } from '../support/fixture.ts';
import { runAtRate } from '../support/load-patterns.ts';
import { untilDeleted } from '../support/progress.ts';
import { addTenant } from '../support/stack.ts';
import { percentile, type Round, ratioRow } from '../support/statistics.ts';
import { median, type Row } from '../table.ts';

const ROUNDS: Record<Size, number> = { quick: 1, usual: 3, full: 5 };
const TOKENS: Record<Size, number> = { quick: 30_000, usual: 100_000, full: 100_000 };
/** Large pushes sent at one moment. */
const LARGE = 6;
/** Single pushes a second of the other app. */
const RATE = 20;
const DEVICES = 100;
const ALONE_PUSHES = 100;

/** How a large push got its 200. */
interface Large {
  id: string;
  /** Statuses of its requests, the last one first. */
  statuses: number[];
}

/**
 * Measures single pushes of an app until their 200, alone and while another account's app sends large pushes at once and
 * repeats the refused ones after their Retry-After.
 */
export async function acceptBeside(fixture: StackFixture, size: Size): Promise<Row[]> {
  const { stack, mongo, audience, request, call } = fixture;
  const other = await addTenant(stack);
  const singles = (await createAudience(other, mongo).register(DEVICES)).map((to) =>
    request('POST', '/push', JSON.stringify({ to, data: { n: 1 } }), other.dev.apiKey),
  );
  const to = await audience.register(TOKENS[size]);
  const large = request('POST', '/push', JSON.stringify({ to, data: { message: 'Hello' } }));
  const p50s: Round[] = [];
  const p99s: Round[] = [];
  const refused: number[] = [];
  const failed: number[] = [];
  const seconds: number[] = [];
  await measureSingles(fixture, singles, ALONE_PUSHES);
  for (let n = 0; n <= ROUNDS[size]; n += 1) {
    await fixture.untilIdle();
    const alone = await measureSingles(fixture, singles, ALONE_PUSHES);
    const startedAt = performance.now();
    let isOver = false;
    const sending = Promise.all(
      Array.from({ length: LARGE }, () => untilAccepted(fixture, large)),
    ).finally(() => {
      isOver = true;
    });
    const most = Number.MAX_SAFE_INTEGER;
    const beside = await measureSingles(fixture, singles, most, () => isOver);
    const pushes = await sending;
    if (n > 0) {
      seconds.push((performance.now() - startedAt) / 1_000);
      const statuses = pushes.flatMap((one) => one.statuses);
      refused.push(statuses.filter((status) => status === 503).length);
      failed.push(statuses.filter((status) => status !== 503 && status !== 200).length);
      p50s.push({ floor: percentile(alone, 0.5), ours: percentile(beside, 0.5) });
      p99s.push({ floor: percentile(alone, 0.99), ours: percentile(beside, 0.99) });
    }
    for (const { id } of pushes) await call(request('DELETE', `/pushes/${id}`));
    for (const { id } of pushes) await untilDeleted(mongo, id);
  }
  const beside = `of another app beside ${LARGE} pushes to ${TOKENS[size].toLocaleString('en')}`;
  const ratio = { unit: 'ms', ratio: 'ours/floor' } as const;
  return [
    ratioRow(`accept-beside: p50 to the 200 ${beside}, against alone`, p50s, ratio),
    ratioRow(`accept-beside: p99 to the 200 ${beside}, against alone`, p99s, ratio),
    { what: 'accept-beside: until all large ones are accepted', value: median(seconds), unit: 's' },
    { what: 'accept-beside: 503 with Retry-After', value: median(refused), unit: 'responses' },
    { what: 'accept-beside: other errors', value: Math.max(...failed), unit: 'responses' },
  ];
}

/** Sends a push, again after each Retry-After, until it is accepted. */
async function untilAccepted({ connections }: StackFixture, bytes: Buffer): Promise<Large> {
  const statuses: number[] = [];
  for (;;) {
    const response = await connections.send(bytes);
    statuses.push(response.status);
    if (response.status === 200) return { id: pushIdOf(response), statuses };
    await sleep((response.retryAfter ?? 1) * 1_000);
  }
}

/** Sends single pushes at a steady rate. @returns milliseconds from the due time of each to its 200 */
async function measureSingles(
  { call }: StackFixture,
  requests: readonly Buffer[],
  count: number,
  isEnough?: () => boolean,
): Promise<number[]> {
  const times: number[] = [];
  const sendOne = async (n: number, dueAt: number) => {
    await call(requests[n % requests.length] as Buffer);
    times.push(performance.now() - dueAt);
  };
  await runAtRate(RATE, count, sendOne, isEnough);
  return times;
}
