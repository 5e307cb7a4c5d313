import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import type { DispatchPlan } from '../src/dispatch-to-many.ts';
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
const recipients: Recipient[] = Array.from({ length: SIZE }, (_, position) => ({
  token: `d${position}`,
  position,
}));

beforeAll(async () => {
  server = await startRedis();
  presence = await connectPresence(server);
  gateway = await openTestGateway(server.url);
  await Promise.all(recipients.map(({ token }) => gateway.connect(token, `of-${token}`)));
});
beforeEach(() => {
  gateway.deliveries.length = 0;
  gateway.result = undefined;
});
afterAll(async () => {
  await gateway.channel.close();
  presence.close();
  await server.stop();
});

/** Sends dispatches of a worker until the test is over; the gateway reports only what the test makes it report. */
async function startWorker(name: string, dispatches: number, ms = 30_000) {
  const dispatcher = await createDispatcher(presence);
  const dispatch = (claim: string, to = recipients, plan: Partial<DispatchPlan> = {}) =>
    dispatcher.dispatchToDevices({ ...DELIVERY, claim }, to, { ...leaveWithin(ms), ...plan });
  const dispatchToOne = (claim: string, withinMs = ms) =>
    dispatch(claim, recipients.slice(0, 1), leaveWithin(withinMs));
  const results = Array.from({ length: dispatches }, (_, n) => dispatch(`${name}${n}`));
  await until(
    () => claims().filter((claim) => claim.startsWith(name)).length >= Math.min(FOUR, dispatches),
  );
  return { results, dispatch, dispatchToOne, close: dispatcher.close };
}

const claims = () => gateway.deliveries.map(({ claim }) => claim);
const distinct = (results: ReadonlyMap<number, unknown>) => [...new Set(results.values())];

/** Reports as the gateway does: first that a dispatch is handled, then the result of each recipient. */
function report(claim: string, what: 'handled' | 'acknowledged'): void {
  const delivery = gateway.deliveries.find((sent) => sent.claim === claim);
  if (delivery === undefined) throw new Error(`${claim} was not sent`);
  for (const position of delivery.positions.slice(0, what === 'handled' ? 1 : SIZE))
    gateway.channel.reply(delivery, position, what);
}

/** Reports all dispatches as acknowledged, each once it is sent. */
async function acknowledgeAll(...expected: string[]): Promise<void> {
  for (const claim of expected) {
    await until(() => claims().includes(claim));
    report(claim, 'acknowledged');
  }
}

test('a dispatch waits until the gateway has handled an earlier one', async () => {
  const worker = await startWorker('a', FOUR + 2);
  report('a0', 'handled');
  await until(() => claims().length === FOUR + 1);
  // A second report of the same dispatch releases nothing.
  report('a0', 'handled');
  report('a0', 'acknowledged');
  await worker.results[0];
  expect(claims()).toEqual(['a0', 'a1', 'a2', 'a3', 'a4']);
  report('a1', 'handled');
  await acknowledgeAll('a1', 'a2', 'a3', 'a4', 'a5');
  for (const results of await Promise.all(worker.results))
    expect(distinct(results)).toEqual(['acknowledged']);
  await worker.close();
});

test('an app with one dispatch waits for one of an app with many', async () => {
  const worker = await startWorker('many', FOUR + 4);
  const other = worker.dispatch('of-other', recipients, { app: 'other' });
  // Is looked up after the other one, which waits by then.
  const marker = worker.dispatchToOne('marker');
  await acknowledgeAll('marker');
  for (const claim of ['many0', 'many1']) report(claim, 'handled');
  await until(() => claims().length === FOUR + 3);
  expect(claims().slice(FOUR + 1)).toEqual(['many4', 'of-other']);
  const all = Array.from({ length: FOUR + 4 }, (_, n) => `many${n}`);
  await acknowledgeAll('of-other', ...all);
  await Promise.all([...worker.results, other, marker]);
  await worker.close();
});

test('a dispatch to one device is sent although others wait', async () => {
  const worker = await startWorker('h', FOUR + 1);
  const single = worker.dispatchToOne('one');
  await acknowledgeAll('one', 'h0', 'h1', 'h2', 'h3', 'h4');
  await Promise.all([...worker.results, single]);
  await worker.close();
});

test('dispatches to single devices that do not respond take no room of a fan-out, nor end its wait', async () => {
  const worker = await startWorker('k', FOUR);
  const waiting = worker.dispatch('of-other', recipients, { app: 'other' });
  expect(distinct(await worker.dispatchToOne('silent', 10))).toEqual(['unanswered']);
  expect(claims()).toEqual(['k0', 'k1', 'k2', 'k3', 'silent']);
  const pending = worker.dispatchToOne('pending');
  await until(() => claims().includes('pending'));
  // Exactly the room that the other dispatch needs.
  report('k0', 'handled');
  await acknowledgeAll('of-other', 'k0', 'k1', 'k2', 'k3', 'pending');
  expect(distinct(await waiting)).toEqual(['acknowledged']);
  await Promise.all([...worker.results, pending]);
  await worker.close();
});

test('the results of a part are returned although another part waits', async () => {
  const other = await openTestGateway(server.url);
  await other.connect('d-other', 'k1');
  const worker = await startWorker('i', FOUR);
  const parts: number[] = [];
  const both = worker.dispatch('both', [...recipients, { token: 'd-other', position: SIZE }], {
    onResults: async (results) => void parts.push(results.size),
  });
  await until(() => parts.length === 1);
  expect(parts).toEqual([1]);
  await acknowledgeAll('i0', 'i1', 'i2', 'i3', 'both');
  expect((await both).size).toBe(SIZE + 1);
  expect(parts).toEqual([1, SIZE]);
  await Promise.all(worker.results);
  await worker.close();
  await other.channel.close();
});

test('the results of all recipients release the room, without a report that they are handled', async () => {
  const worker = await startWorker('b', FOUR + 1);
  await acknowledgeAll('b0', 'b4', 'b1', 'b2', 'b3');
  await Promise.all(worker.results);
  await worker.close();
});

test('of a gateway that reports nothing, dispatches that wait end as not sent', async () => {
  const worker = await startWorker('c', FOUR + 2, 500);
  const results = await Promise.all(worker.results);
  expect(results.map(distinct)).toEqual([
    ...Array.from({ length: FOUR }, () => ['unanswered']),
    ...[['not-sent'], ['not-sent']],
  ]);
  expect(claims()).toEqual(['c0', 'c1', 'c2', 'c3']);
  await worker.close();
});

test('each worker has room of its own, also after one has died', async () => {
  const dead = await startWorker('d', FOUR + 1, 60_000);
  const worker = await startWorker('e', FOUR + 1);
  await dead.close();
  await acknowledgeAll('e0', 'e1', 'e2', 'e3', 'e4');
  await Promise.all([...worker.results, ...dead.results]);
  await worker.close();
});

test('recipients that get their push from the inbox are handed on before others have acknowledged', async () => {
  const worker = await startWorker('j', 0);
  const parts: ReadonlyMap<number, unknown>[] = [];
  const onResults = async (results: ReadonlyMap<number, unknown>) => void parts.push(results);
  const all = worker.dispatch('inbox', recipients, { onResults });
  await until(() => claims().includes('inbox'));
  const [delivery] = gateway.deliveries;
  if (delivery === undefined) throw new Error('nothing was sent');
  gateway.channel.reply(delivery, 3, 'syncing');
  gateway.channel.reply(delivery, 5, 'backpressure');
  const handedOn = () => parts.flatMap((part) => [...part]);
  await until(() => handedOn().length === 2);
  expect(handedOn().sort()).toEqual([
    [3, 'syncing'],
    [5, 'backpressure'],
  ]);
  await acknowledgeAll('inbox');
  expect((await all).size).toBe(SIZE);
  expect(parts.at(-1)?.size).toBe(SIZE - 2);
  expect(handedOn()).toHaveLength(SIZE);
  await worker.close();
});
