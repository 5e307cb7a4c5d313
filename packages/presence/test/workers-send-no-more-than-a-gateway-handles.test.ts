import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { createDispatcher, type Recipient } from '../src/dispatcher.ts';
import { connectPresence, type PresenceServer } from '../src/presence-server.ts';
import { startRedis } from './start-server.ts';
import { leaveWithin, openTestGateway, type TestGateway } from './test-gateway.ts';

/** Recipients of a dispatch. A gateway has room for four of them. */
const SIZE = 1_000;
const FOUR = 4;
const DELIVERY = { push: 'p1', work: 'p1', expiresAt: Date.now() + 60_000, payload: '{}' };

let server: Awaited<ReturnType<typeof startRedis>>;
let presence: PresenceServer;
let gateway: TestGateway;
const recipients = Array.from({ length: SIZE }, (_, position) => ({
  token: `d${position}`,
  position,
}));

beforeAll(async () => {
  server = await startRedis();
  presence = await connectPresence(server);
  gateway = await openTestGateway(server.url);
  await Promise.all(recipients.map(({ token }) => gateway.connect(token, `of-${token}`)));
});

afterAll(async () => {
  await gateway.channel.close();
  presence.close();
  await server.stop();
});

/** Sends dispatches of a worker until the test is over; the gateway reports only what the test makes it report. */
async function startWorker(name: string, dispatches: number, ms: number) {
  const dispatcher = await createDispatcher(presence);
  const results = Array.from({ length: dispatches }, (_, n) =>
    dispatcher.dispatchToDevices(
      { ...DELIVERY, claim: `${name}${n}` },
      recipients,
      leaveWithin(ms),
    ),
  );
  return {
    results,
    dispatchToOne: (claim: string, withinMs = ms) =>
      dispatcher.dispatchToDevices(
        { ...DELIVERY, claim },
        recipients.slice(0, 1),
        leaveWithin(withinMs),
      ),
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
    gateway.channel.reply(delivery, position, what);
}

test('a dispatch waits until the gateway has handled an earlier one', async () => {
  reset();
  const worker = await startWorker('a', FOUR + 2, 5_000);
  await until(() => claims().length === FOUR);
  report('a0', 'handled');
  await until(() => claims().length === FOUR + 1);
  // A second report of the same dispatch releases nothing.
  report('a0', 'handled');
  report('a0', 'acknowledged');
  await worker.results[0];
  expect(claims()).toEqual(['a0', 'a1', 'a2', 'a3', 'a4']);
  report('a1', 'handled');
  await until(() => claims().includes('a5'));
  for (const claim of claims()) report(claim, 'acknowledged');
  for (const results of await Promise.all(worker.results))
    expect([...new Set(results.values())]).toEqual(['acknowledged']);
  await worker.close();
});

test('an app with one dispatch waits for one of an app with many', async () => {
  reset();
  const worker = await startWorker('many', FOUR + 4, 5_000);
  await until(() => claims().length === FOUR);
  const other = worker.dispatchOfApp('other', 'of-other');
  for (const claim of ['many0', 'many1']) report(claim, 'handled');
  await until(() => claims().length === FOUR + 2);
  expect(claims().slice(FOUR)).toEqual(['many4', 'of-other']);
  for (let n = 0; n < FOUR + 4; n += 1) {
    await until(() => claims().includes(`many${n}`));
    report(`many${n}`, 'acknowledged');
  }
  report('of-other', 'acknowledged');
  await Promise.all([...worker.results, other]);
  await worker.close();
});

test('a dispatch to one device is sent although others wait', async () => {
  reset();
  const worker = await startWorker('h', FOUR + 1, 5_000);
  await until(() => claims().length === FOUR);
  const single = worker.dispatchToOne('one');
  await until(() => claims().includes('one'));
  for (const claim of claims()) report(claim, 'acknowledged');
  await until(() => claims().includes('h4'));
  report('h4', 'acknowledged');
  await Promise.all([...worker.results, single]);
  await worker.close();
});

test('dispatches to single devices that do not respond take no room of a fan-out, nor end its wait', async () => {
  reset();
  const worker = await startWorker('k', FOUR, 5_000);
  await until(() => claims().length === FOUR);
  const waiting = worker.dispatchOfApp('other', 'of-other');
  const silent = await worker.dispatchToOne('silent', 10);
  expect([...silent.values()]).toEqual(['unanswered']);
  expect(claims()).toEqual(['k0', 'k1', 'k2', 'k3', 'silent']);
  const pending = worker.dispatchToOne('pending');
  await until(() => claims().includes('pending'));
  // Exactly the room that the other dispatch needs.
  report('k0', 'handled');
  await until(() => claims().includes('of-other'));
  for (const claim of ['k0', 'k1', 'k2', 'k3', 'of-other', 'pending'])
    report(claim, 'acknowledged');
  expect([...new Set((await waiting).values())]).toEqual(['acknowledged']);
  await Promise.all([...worker.results, pending]);
  await worker.close();
});

test('the results of a part are returned although another part waits', async () => {
  reset();
  const other = await openTestGateway(server.url);
  await other.connect('d-other', 'k1');
  const worker = await startWorker('i', FOUR, 5_000);
  await until(() => claims().length === FOUR);
  const elsewhere = { token: 'd-other', position: SIZE };
  const parts: number[] = [];
  const both = worker.dispatch('both', [...recipients, elsewhere], async (results) => {
    parts.push(results.size);
  });
  await until(() => parts.length === 1);
  expect(parts).toEqual([1]);
  for (const claim of claims()) report(claim, 'acknowledged');
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
  const worker = await startWorker('b', FOUR + 1, 5_000);
  await until(() => claims().length === FOUR);
  report('b0', 'acknowledged');
  await until(() => claims().length === FOUR + 1);
  for (const claim of claims().slice(1)) report(claim, 'acknowledged');
  await Promise.all(worker.results);
  await worker.close();
});

test('of a gateway that reports nothing, dispatches that wait end as not sent', async () => {
  reset();
  const worker = await startWorker('c', FOUR + 2, 50);
  const results = await Promise.all(worker.results);
  expect(results.map((result) => [...new Set(result.values())])).toEqual([
    ...Array.from({ length: FOUR }, () => ['unanswered']),
    ...[['not-sent'], ['not-sent']],
  ]);
  expect(claims()).toEqual(['c0', 'c1', 'c2', 'c3']);
  await worker.close();
});

test('each worker has room of its own, also after one has died', async () => {
  reset();
  const dead = await startWorker('d', FOUR + 1, 60_000);
  await until(() => claims().length === FOUR);
  const worker = await startWorker('e', FOUR + 1, 5_000);
  await until(() => claims().length === 2 * FOUR);
  await dead.close();
  for (const claim of ['e0', 'e1', 'e2', 'e3']) report(claim, 'acknowledged');
  await until(() => claims().includes('e4'));
  report('e4', 'acknowledged');
  await Promise.all([...worker.results, ...dead.results]);
  await worker.close();
});

test('recipients that get their push from the inbox are handed on before others have acknowledged', async () => {
  reset();
  const worker = await startWorker('j', 0, 5_000);
  const parts: ReadonlyMap<number, unknown>[] = [];
  const all = worker.dispatch('inbox', recipients, async (results) => void parts.push(results));
  await until(() => claims().includes('inbox'));
  const [delivery] = gateway.deliveries;
  if (delivery === undefined) throw new Error('nothing was sent');
  for (const [position, result] of [
    [3, 'syncing'],
    [5, 'backpressure'],
  ] as const)
    gateway.channel.reply(delivery, position, result);
  const handedOn = () => parts.flatMap((part) => [...part]);
  await until(() => handedOn().length === 2);
  expect(handedOn().sort()).toEqual([
    [3, 'syncing'],
    [5, 'backpressure'],
  ]);
  report('inbox', 'acknowledged');
  expect((await all).size).toBe(SIZE);
  expect(parts.at(-1)?.size).toBe(SIZE - 2);
  expect(handedOn()).toHaveLength(SIZE);
  await worker.close();
});
