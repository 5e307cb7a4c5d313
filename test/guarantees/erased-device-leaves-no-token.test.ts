import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { runCarillonHere } from '../support/carillon.ts';
import { untilInbox } from '../support/end-to-end/pushes.ts';
import { sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { createFleet } from '../support/guarantees/devices.ts';
import { makeDue, sendTomorrow } from '../support/guarantees/schedule.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

let stack: SharedStack;
let mongo: TestMongo;
const fleet = createFleet(() => stack.dev);
beforeAll(async () => {
  stack = await useSharedStack();
  mongo = await openMongo(stack.dev);
});
afterAll(async () => {
  await fleet.disconnectAll();
  await mongo?.close();
});

const run = (...args: string[]) =>
  runCarillonHere(stack.home, ['--json', 'device', 'erase', ...args], {
    CARILLON_API: stack.dev.api,
    CARILLON_API_KEY: stack.dev.apiKey,
  });

/** The documents of the app that contain a text. */
async function findDocuments(text: string): Promise<string[]> {
  const found: string[] = [];
  for (const name of ['pushes', 'batches', 'subscriptions', 'inbox', 'devices']) {
    const all = mongo.db.collection(name).find({
      $or: [{ app: stack.dev.app }, { _id: { $regex: text } as never }, { token: text }],
    });
    for await (const document of all)
      if (JSON.stringify(document).includes(text)) found.push(`${name} ${document._id}`);
  }
  return found;
}

test('nothing but the record of the deletion names it, and others get their pushes', async () => {
  const [erased, other] = await fleet.createMany(2, 'offline');
  if (erased === undefined || other === undefined) throw new Error('no devices');
  const { token } = erased;
  const topic = randomUUID();
  for (const subscriber of [token, other.token])
    await stack.api('POST', '/topics/subscribe', { token: subscriber, topics: [topic] });
  const waiting = await sendPush(stack, [token, other.token]);
  await untilInbox(stack, token, [waiting.id]);
  const scheduled = await sendTomorrow(stack, [token, other.token]);
  const toTopic = await sendTomorrow(stack, [`/topics/${topic}`, token]);

  const { code, stdout, stderr } = await run(token, '--now');
  expect([code, stderr]).toEqual([0, expect.stringContaining(' read')]);
  expect(JSON.parse(stdout)).toMatchObject({ token, recordUntil: expect.any(String) });
  expect(await findDocuments(token)).toEqual([`devices ${token}`]);
  await untilOutcomes(mongo, waiting, { gone: 1, inbox: 1 });

  await expect(erased.connect()).rejects.toThrow();
  await other.connect();
  await makeDue(mongo, [scheduled, toTopic]);
  const arrivals = await other.waitFor(3);
  expect(arrivals.map(({ payload }) => payload).sort()).toEqual(
    [waiting, scheduled, toTopic].map(({ payload }) => payload).sort(),
  );
  for (const push of [waiting, scheduled])
    await untilOutcomes(mongo, push, { gone: 1, delivered: 1 });
  expect(await findDocuments(token)).toEqual([`devices ${token}`]);
});

test('it may be repeated, and a device that is not deleted is not erased by it', async () => {
  const device = await fleet.offline();
  for (let n = 0; n < 2; n += 1) expect((await run(device.token, '--now')).code).toBe(0);
  const foreign = await run('f'.repeat(22), '--now');
  expect([foreign.code, foreign.stderr]).toEqual([1, expect.stringContaining('no deleted device')]);
  expect((await run(device.token)).code).toBe(2);
});
