import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { SUSPECTED_AFTER } from '../../packages/store/src/lapsed-claims.ts';
import type { TestPush } from '../../packages/store/test/store-under-test.ts';
import { type FailingWorkers, openFailingWorkers } from '../support/faults/failing-workers.ts';
import { until } from '../support/until.ts';

const LIMIT_MS = 600_000;
/** Five claims that lapse, with room for a busy machine. */
const BESIDE_WITHIN_MS = 120_000;

let workers: FailingWorkers;
beforeAll(async () => {
  workers = await openFailingWorkers();
});
afterAll(() => workers?.stop());

/** A token in the middle of a push's recipients. */
function middleOf({ tokens }: { tokens: string[] }): string {
  return tokens[Math.floor(tokens.length * 0.6)] ?? '';
}

/** Inserts a push while another one is suspected, and waits until it is delivered. Returns the outcomes of the other then. */
async function deliverBeside({ id }: Pick<TestPush, 'id'>): Promise<Record<string, number>> {
  const suspected = { _id: id, 'work.lapsed': { $gte: SUSPECTED_AFTER } };
  const isSuspected = async () => (await workers.pushes.countDocuments(suspected)) > 0;
  await until(isSuspected, { timeoutMs: BESIDE_WITHIN_MS, what: 'a suspected push' });
  const push = await workers.insertPush(1);
  const isDelivered = async () => (await workers.outcomesOf(push)).inbox === 1;
  await until(isDelivered, { timeoutMs: BESIDE_WITHIN_MS, what: 'a push beside it' });
  return workers.outcomesOf({ id });
}

test(
  'a recipient that kills its workers fails; the other 999 and 500 pushes beside them do not',
  async () => {
    const push = await workers.insertPush(1_000);
    // They were in four killed processes before: the next one makes them suspected too.
    const neighbours = await Promise.all(
      Array.from({ length: 500 }, () => workers.insertPush(1, { lapsed: 4 })),
    );
    const ends = await workers.run(`rows:kill@${middleOf(push)}`);
    expect(await workers.outcomesOf(push)).toEqual({ inbox: 999, failed: 1 });
    expect(await workers.reasonsOf(push)).toEqual({ 'worker-failed': 1 });
    expect(await workers.inbox.countDocuments({ push: push.id })).toBe(999);
    const ids = neighbours.map(({ id }) => id);
    expect(await workers.inbox.countDocuments({ push: { $in: ids } })).toBe(500);
    expect(ends).toBeGreaterThan(5);
    expect(ends).toBeLessThanOrEqual(30);
  },
  LIMIT_MS,
);

test(
  'ten kills for another reason fail no recipient',
  async () => {
    const pushes = await Promise.all([1, 40].map((recipients) => workers.insertPush(recipients)));
    await workers.killInWork(10, 'rows:stop#1');
    await workers.run('');
    const outcomes = await Promise.all(pushes.map(workers.outcomesOf));
    expect(outcomes).toEqual([{ inbox: 1 }, { inbox: 40 }]);
  },
  LIMIT_MS,
);

test.each([
  ['throws', 'throw', 0],
  // Five make the batch suspected; six end at each of three recipients.
  ['kills its workers', 'kill', 23],
])(
  'a payload that %s fails for all its recipients, and for no other push; one that is sent meanwhile is delivered before',
  async (_, action, expectedEnds) => {
    const [poison, push] = await Promise.all([
      workers.insertPush(9, { data: '{"text":"unprocessable"}' }),
      workers.insertPush(9),
    ]);
    const [ends, meanwhile] = await Promise.all([
      workers.run(`deliver:${action}@unprocessable`),
      deliverBeside(poison),
    ]);
    expect(meanwhile).toHaveProperty('pending');
    expect(ends).toBe(expectedEnds);
    expect(await workers.outcomesOf(poison)).toEqual({ failed: 9 });
    expect(await workers.outcomesOf(push)).toEqual({ inbox: 9 });
    expect(await workers.reasonsOf(poison)).toEqual({ 'worker-failed': 9 });
    expect(await workers.inbox.countDocuments({ push: poison.id })).toBe(0);
  },
  LIMIT_MS,
);

test(
  'a recipient for which a rejection is not handled fails',
  async () => {
    const push = await workers.insertPush(3);
    expect(await workers.run(`rows:reject@${middleOf(push)}`)).toBe(11);
    expect(await workers.outcomesOf(push)).toEqual({ inbox: 2, failed: 1 });
  },
  LIMIT_MS,
);
