import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { createDispatcher, type Recipient } from '../src/dispatcher.ts';
import { connectShards, type Shards } from '../src/shards.ts';
import { startRedis } from './start-server.ts';
import { leaveWithin, openTestGateway, type TestGateway } from './test-gateway.ts';

/** Recipients of a dispatch: half of the first window. */
const SIZE = 1_000;
const DELIVERY = { push: 'p1', work: 'p1', expiresAt: Date.now() + 60_000, payload: '{}' };

let server: Awaited<ReturnType<typeof startRedis>>;
let shards: Shards;
let gateway: TestGateway;
const recipients = Array.from({ length: SIZE }, (_, position) => ({
  token: `d${position}`,
  position,
}));

beforeAll(async () => {
  server = await startRedis();
  shards = await connectShards(server);
  gateway = await openTestGateway(server.url);
  await Promise.all(recipients.map(({ token }) => gateway.connect(token, `of-${token}`)));
});

afterAll(async () => {
  await gateway.channel.close();
  shards.close();
  await server.stop();
});

/** Sends dispatches of a worker until the test is over; the gateway reports only what the test makes it report. */
async function startWorker(name: string, dispatches: number, ms: number) {
  const dispatcher = await createDispatcher(shards);
  const results = Array.from({ length: dispatches }, (_, n) =>
    dispatcher.dispatchToDevices(
      { ...DELIVERY, claim: `${name}${n}` },
      recipients,
      leaveWithin(ms),
    ),
  );
  return {
    results,
    dispatchToOne: (claim: string) =>
      dispatcher.dispatchToDevices({ ...DELIVERY, claim }, recipients.slice(0, 1), leaveWithin(ms)),
    dispatchOfApp: (app: string, claim: string) =>
      dispatcher.dispatchToDevices({ ...DELIVERY, claim }, recipients, { ...leaveWithin(ms), app }),
    dispatch: (
      claim: string,
      to: readonly Recipient[],
      onResults: (results: ReadonlyMap<number, unknown>) => Promise<void>,
    ) =>
      dispatcher.dispatchToDevices({ ...DELIVERY, claim }, to, { ...leaveWithin(ms), onResults }),
    close: () => dispatcher.close(),
  };
}

const claims = () => gateway.deliveries.map(({ claim }) => claim);
const reset = () => {
  gateway.deliveries.length = 0;
  gateway.result = undefined;
};

/** Reports as the gateway does: first that a dispatch is handled, then the result of each recipient or of the first ones. */
function report(claim: string, what: 'handled' | 'acknowledged', recipients = SIZE): void {
  const delivery = gateway.deliveries.find((sent) => sent.claim === claim);
  if (delivery === undefined) throw new Error(`${claim} was not sent`);
  for (const position of delivery.positions.slice(0, what === 'handled' ? 1 : recipients))
    gateway.channel.reply({ ...delivery, shard: 0 }, position, what);
}

test('a dispatch waits for half of the receipts of an earlier one, and those of another app do not', async () => {
  reset();
  // So many have room for their receipts; the gateway has handled all of them.
  const sent = Array.from({ length: 12 }, (_, n) => `a${n}`);
  const worker = await startWorker('a', sent.length + 1, 5_000);
  for (const claim of sent) {
    await until(() => claims().includes(claim));
    report(claim, 'handled');
  }
  const other = worker.dispatchOfApp('other', 'other');
  await until(() => claims().includes('other'));
  expect(claims()).not.toContain('a12');
  report('a0', 'acknowledged', SIZE / 2);
  await until(() => claims().includes('a12'));
  for (const claim of [...sent, 'other', 'a12']) report(claim, 'acknowledged');
  for (const results of await Promise.all([...worker.results, other])) {
    expect(results.size).toBe(SIZE);
    expect(new Set(results.values())).toEqual(new Set(['acknowledged']));
  }
  await worker.close();
});

test('a dispatch to one device is sent although others wait', async () => {
  reset();
  const worker = await startWorker('h', 3, 5_000);
  await until(() => claims().length === 2);
  const single = worker.dispatchToOne('one');
  await until(() => claims().includes('one'));
  for (const claim of ['h0', 'h1', 'one']) report(claim, 'acknowledged');
  await until(() => claims().includes('h2'));
  report('h2', 'acknowledged');
  await Promise.all([...worker.results, single]);
  await worker.close();
});

test('the results of a part are returned although another part waits', async () => {
  reset();
  const other = await openTestGateway(server.url);
  await other.connect('d-other', 'k1');
  const worker = await startWorker('i', 2, 5_000);
  await until(() => claims().length === 2);
  const elsewhere = { token: 'd-other', position: SIZE };
  const parts: number[] = [];
  const both = worker.dispatch('both', [...recipients, elsewhere], async (results) => {
    parts.push(results.size);
  });
  await until(() => parts.length === 1);
  expect(parts).toEqual([1]);
  for (const claim of ['i0', 'i1']) report(claim, 'acknowledged');
  await until(() => claims().includes('both'));
  report('both', 'acknowledged');
  expect((await both).size).toBe(SIZE + 1);
  expect(parts).toEqual([1, SIZE]);
  await Promise.all(worker.results);
  await worker.close();
  await other.channel.close();
});

test('the results of all recipients release the room, without a report that they are handled', async () => {
  reset();
  const worker = await startWorker('b', 3, 5_000);
  await until(() => claims().length === 2);
  report('b0', 'acknowledged');
  await until(() => claims().length === 3);
  for (const claim of ['b1', 'b2']) report(claim, 'acknowledged');
  await Promise.all(worker.results);
  await worker.close();
});

test('a gateway that stalls gets no more dispatches, and the rest ends as not sent', async () => {
  reset();
  const worker = await startWorker('c', 4, 50);
  const results = await Promise.all(worker.results);
  expect(results.map((result) => [...new Set(result.values())])).toEqual([
    ['unanswered'],
    ['unanswered'],
    ['not-sent'],
    ['not-sent'],
  ]);
  expect(claims()).toEqual(['c0', 'c1']);
  await worker.close();
});

test('dispatches of a worker that has ended take no room of another worker', async () => {
  reset();
  const dead = await startWorker('d', 3, 60_000);
  await until(() => claims().length === 2);
  await dead.close();
  const worker = await startWorker('e', 2, 5_000);
  await until(() => claims().length === 4);
  for (const claim of ['e0', 'e1']) report(claim, 'acknowledged');
  await Promise.all([...worker.results, ...dead.results]);
  await worker.close();
});

test('two workers at one gateway each have a window', async () => {
  reset();
  const workers = await Promise.all([startWorker('f', 3, 5_000), startWorker('g', 3, 5_000)]);
  await until(() => claims().length === 4);
  expect(claims().sort()).toEqual(['f0', 'f1', 'g0', 'g1']);
  report('f0', 'handled');
  report('f0', 'acknowledged', SIZE / 2);
  await until(() => claims().includes('f2'));
  report('g1', 'handled');
  report('g1', 'acknowledged', SIZE / 2);
  await until(() => claims().includes('g2'));
  for (const claim of claims()) report(claim, 'acknowledged');
  for (const worker of workers) {
    await Promise.all(worker.results);
    await worker.close();
  }
});
