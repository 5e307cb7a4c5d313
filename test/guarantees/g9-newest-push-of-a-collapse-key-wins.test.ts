import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { expect, test } from '@jest/globals';
import { pushStatusOf, type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { readClaim, untilClaimed } from '../support/guarantees/batch-claim.ts';
import { payloadsOf, pendingPushesOf } from '../support/guarantees/devices.ts';
import { lendTo } from '../support/guarantees/lend-to.ts';
import { makeDue, sendTomorrow } from '../support/guarantees/schedule.ts';
import { untilPending } from '../support/guarantees/status.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import type { TestMongo } from '../support/mongo.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** A push that is sent so long after another one is claimed by its worker, whose name is stored then. */
const NO_INITIAL_CLAIM_MS = 600;

let stack: Stack;
let mongo: TestMongo;
const fleet = lendTo(
  () => useKillableStack(),
  (...lent) => {
    [stack, mongo] = lent;
  },
);

/** Waits until a push is pending for no device, in a batch or in an inbox. */
async function untilNothingPending(push: SentPush): Promise<void> {
  const isOver = async () => {
    const { pending = 0, inbox = 0 } = (await pushStatusOf(mongo, push)).outcomes;
    return pending + inbox === 0;
  };
  await until(isOver, { everyMs: 100, what: `push ${push.id} over` });
}

/** Sends one more push, without a key, and waits for it: everything in flight has arrived before it. */
async function sendLast(device: MqttDevice): Promise<SentPush> {
  const last = await sendPush(stack, device.token);
  await until(() => payloadsOf(device).includes(last.payload));
  return last;
}

test('an offline device gets only the newest', async () => {
  const device = await fleet.offline();
  const fields = { collapse_key: randomUUID().slice(0, 32) };
  const pushes: SentPush[] = [];
  for (let i = 0; i < 5; i++) pushes.push(await sendPush(stack, device.token, fields));
  const other = await sendPush(stack, device.token, { collapse_key: 'another' });
  const newest = pushes[4] as SentPush;
  await untilPending(stack, newest, [device.token]);
  const listed = async () => (await pendingPushesOf(stack, device.token)).map(({ id }) => id);
  // An older one has the row until the newest is processed.
  await until(async () => isDeepStrictEqual(await listed(), [newest.id, other.id]));
  await device.connect();
  const last = await sendLast(device);
  const expected = [newest, other, last].map(({ payload }) => payload);
  expect(payloadsOf(device)).toEqual(expected);
  for (const older of pushes.slice(0, 4)) await untilOutcomes(mongo, older, { superseded: 1 });
});

test('100 pushes by 8 senders at once end with the newest, and none arrives after a newer one', async () => {
  const device = await fleet.offline();
  const fields = { collapse_key: 'crowded' };
  const pushes: SentPush[] = [];
  const send = async () => {
    while (pushes.length < 92) pushes.push(await sendPush(stack, device.token, fields));
  };
  const sent = Promise.all(Array.from({ length: 8 }, send));
  await until(() => pushes.length >= 40, { everyMs: 1 });
  await device.connect();
  await sent;
  const ordered = pushes.sort((a, b) => (a.id < b.id ? -1 : 1)).map(({ payload }) => payload);
  for (const push of pushes) await untilNothingPending(push);
  const last = await sendLast(device);
  await untilOutcomes(mongo, last, { delivered: 1 });
  const positions = payloadsOf(device).map((payload) => ordered.indexOf(payload));
  expect(payloadsOf(device).slice(-2)).toEqual([ordered.at(-1), last.payload]);
  expect(positions.slice(0, -1)).toEqual([...positions.slice(0, -1)].sort((a, b) => a - b));
  expect(await pendingPushesOf(stack, device.token)).toEqual([]);
});

test('an older push that is processed later than a newer one is superseded', async () => {
  const device = await fleet.online();
  const fields = { collapse_key: 'late' };
  // Whatever the first worker does alone carries its name.
  const known = await whileFrozen(stack, [{ service: 'delivery-worker', index: 1 }], async () => {
    await sleep(NO_INITIAL_CLAIM_MS);
    const push = await sendPush(stack, device.token);
    await untilOutcomes(mongo, push, { delivered: 1 });
    return readClaim(mongo, push);
  });
  device.holdReceipts();
  await sleep(NO_INITIAL_CLAIM_MS);
  const older = await sendPush(stack, device.token, fields);
  const claim = await untilClaimed(mongo, older);
  expect([typeof known?.reply, typeof claim.reply]).toEqual(['string', 'string']);
  const index = claim?.reply === known?.reply ? 0 : 1;
  const newer = await whileFrozen(stack, [{ service: 'delivery-worker', index }], async () => {
    expect((await readClaim(mongo, older))?.state).toBe('ready');
    device.cut();
    await until(async () => !(await isOnline(device)));
    const push = await sendPush(stack, device.token, fields);
    await until(async () => (await readClaim(mongo, push))?.state === 'closed');
    expect((await readClaim(mongo, older))?.state).toBe('ready');
    return push;
  });
  await untilOutcomes(mongo, older, { superseded: 1 });
  const listed = (await pendingPushesOf(stack, device.token)).map(({ id }) => id);
  expect(listed).toEqual([newer.id]);
  device.releaseReceipts();
  await device.connect();
  const last = await sendLast(device);
  const second = device.arrivals.filter(({ connection }) => connection === 2);
  expect(second.map(({ payload }) => payload)).toEqual([newer.payload, last.payload]);
});

async function isOnline({ token }: MqttDevice): Promise<boolean> {
  const path = `/devices/${token}`;
  const { json } = await stack.api<{ presence: { online: boolean } }>('GET', path);
  return json.presence.online;
}

test('a late receipt of the older push leaves the newer one in the inbox', async () => {
  const device = await fleet.online();
  device.holdReceipts();
  const fields = { collapse_key: 'receipt' };
  const older = await sendPush(stack, device.token, fields);
  const between = await sendPush(stack, device.token);
  await untilOutcomes(mongo, older, { inbox: 1 });
  await untilOutcomes(mongo, between, { inbox: 1 });
  const newer = await sendPush(stack, device.token, fields);
  await untilOutcomes(mongo, newer, { inbox: 1 });
  device.releaseOldestReceipt();
  device.releaseOldestReceipt();
  // The receipt of the one between comes behind that of the older: once it counts, both do.
  await untilOutcomes(mongo, between, { delivered: 1 });
  await untilPending(stack, newer, [device.token]);
  device.cut();
  device.releaseReceipts();
  await device.connect();
  await untilOutcomes(mongo, newer, { delivered: 1 });
  const again = device.arrivals.filter(({ connection }) => connection === 2);
  expect(again.map(({ payload }) => payload)).toEqual([newer.payload]);
});

test('the age of a scheduled push counts from its due time', async () => {
  const device = await fleet.online();
  const collapse_key = 'scheduled';
  const scheduled = await sendTomorrow(stack, device.token, { collapse_key });
  const earlier = await sendPush(stack, device.token, { collapse_key });
  await device.waitFor(1);
  await makeDue(mongo, [scheduled]);
  await device.waitFor(2);
  expect(payloadsOf(device)).toEqual([earlier.payload, scheduled.payload]);
});
