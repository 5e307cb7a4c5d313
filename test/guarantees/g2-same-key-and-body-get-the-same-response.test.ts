import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { createDevicePool } from '../support/faults/device-pool.ts';
import { sendPush } from '../support/faults/pushes.ts';
import { payloadsOf } from '../support/guarantees/devices.ts';
import { lendTo } from '../support/guarantees/lend-to.ts';
import { pushWithIdempotencyKey } from '../support/guarantees/push-with-key.ts';
import { makeDue } from '../support/guarantees/schedule.ts';
import type { TestMongo } from '../support/mongo.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

let stack: SharedStack;
let mongo: TestMongo;
const fleet = lendTo(
  () => useSharedStack(),
  (...lent) => {
    [stack, mongo] = lent;
  },
);

/** A request's text with a payload of its own. */
function bodyFor(to: string | readonly string[], fields: object = {}): string {
  return JSON.stringify({ to, data: { mark: randomUUID() }, ...fields });
}

/** Expects that so many pushes arrived, and no further one in flight. */
async function expectArrivals(device: MqttDevice, count: number): Promise<void> {
  // Two pushes at once may overtake each other.
  await device.waitFor(count);
  const last = await sendPush(stack, device.token);
  await device.waitFor(count + 1);
  expect(payloadsOf(device).indexOf(last.payload)).toBe(count);
  expect(device.arrivals).toHaveLength(count + 1);
}

test('a repeat gets the response of the first request, and the device one push', async () => {
  const device = await fleet.online();
  const key = randomUUID();
  const body = bodyFor([device.token, 'unknown-one', 'unknown-two']);
  const first = await pushWithIdempotencyKey(stack.dev, key, body);
  const second = await pushWithIdempotencyKey(stack.dev, key, body);
  expect(first.status).toBe(200);
  expect({ status: second.status, text: second.text }).toEqual({ status: 200, text: first.text });
  await expectArrivals(device, 1);
});

test('twenty at once are one push', async () => {
  const device = await fleet.online();
  const key = randomUUID();
  const body = bodyFor(device.token);
  const all = Array.from({ length: 20 }, () => pushWithIdempotencyKey(stack.dev, key, body));
  const responses = await Promise.all(all);
  expect(responses.map(({ status }) => status)).toEqual(all.map(() => 200));
  expect(new Set(responses.map(({ text }) => text)).size).toBe(1);
  await expectArrivals(device, 1);
});

test('after the topic has lost its subscribers', async () => {
  const { token } = await fleet.offline();
  const topic = randomUUID();
  await stack.api('POST', '/topics/subscribe', { token, topics: [topic] });
  const key = randomUUID();
  const body = bodyFor(`/topics/${topic}`);
  const first = await pushWithIdempotencyKey(stack.dev, key, body);
  await stack.api('POST', '/topics/unsubscribe', { token, topics: [topic] });
  const second = await pushWithIdempotencyKey(stack.dev, key, body);
  expect({ status: second.status, text: second.text }).toEqual({ status: 200, text: first.text });
});

test('after a scheduled push was due', async () => {
  const device = await fleet.online();
  const key = randomUUID();
  const body = bodyFor(device.token, { schedule: Math.floor(Date.now() / 1_000) + 86_400 });
  const first = await pushWithIdempotencyKey(stack.dev, key, body);
  expect(first.status).toBe(200);
  await makeDue(mongo, [first.json]);
  await device.waitFor(1);
  const second = await pushWithIdempotencyKey(stack.dev, key, body);
  expect({ status: second.status, text: second.text }).toEqual({ status: 200, text: first.text });
  await expectArrivals(device, 1);
});

test('another body under the same key is refused and sends nothing', async () => {
  const device = await fleet.online();
  const key = randomUUID();
  expect((await pushWithIdempotencyKey(stack.dev, key, bodyFor(device.token))).status).toBe(200);
  const other = await pushWithIdempotencyKey(stack.dev, key, bodyFor(device.token));
  expect(other).toMatchObject({ status: 400, json: { code: 'INVALID_PARAM' } });
  await expectArrivals(device, 1);
});

test('a body with its keys in another order, other white space and escapes is the same', async () => {
  const device = await fleet.online();
  const key = randomUUID();
  const one = `{"to":"${device.token}","data":{"b":[1.0,{"d":1,"c":"é"}],"a":1}}`;
  const other = `{ "data": {"a":1, "b": [1.0, {"c":"\\u00e9","d":1}]},\n"to":"${device.token}"}`;
  const first = await pushWithIdempotencyKey(stack.dev, key, one);
  const second = await pushWithIdempotencyKey(stack.dev, key, other);
  expect(first.status).toBe(200);
  expect({ status: second.status, text: second.text }).toEqual({ status: 200, text: first.text });
  await expectArrivals(device, 1);
});

test.each([
  ['a list in another order', '{"a":[2,1],"n":1}'],
  ['a number written in another way', '{"a":[1,2],"n":1.0}'],
  ['a field twice', '{"a":[1,2],"n":1,"n":1}'],
  ['a field in another object', '{"a":[1,2]},"n":{}'],
])('%s is another body', async (_what, data) => {
  const { token } = await fleet.offline();
  const key = randomUUID();
  const send = (text: string) =>
    pushWithIdempotencyKey(stack.dev, key, `{"to":"${token}","data":${text}}`);
  expect((await send('{"a":[1,2],"n":1}')).status).toBe(200);
  expect(await send(data)).toMatchObject({ status: 400, json: { code: 'INVALID_PARAM' } });
});

test('twenty at once to several batches are one push; a 5xx is repeated', async () => {
  const pool = await createDevicePool(stack, mongo, { registered: 1_500, real: 0 });
  const key = randomUUID();
  const body = bodyFor(pool.tokens);
  const all = Array.from({ length: 20 }, () => pushWithIdempotencyKey(stack.dev, key, body));
  const responses = await Promise.all(all);
  expect(responses.every(({ status }) => status === 200 || status >= 500)).toBe(true);
  const again = await pushWithIdempotencyKey(stack.dev, key, body);
  expect(again).toMatchObject({ status: 200, json: { info: { devices: 1_500, failed: [] } } });
  const accepted = responses.filter(({ status }) => status === 200);
  expect(new Set([again, ...accepted].map(({ text }) => text)).size).toBe(1);
});
