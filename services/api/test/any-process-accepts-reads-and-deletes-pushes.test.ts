import { acceptPush, parseIdempotencyKey, replayIdempotent } from '@carillon/accept/accept-push';
import { deletePush } from '@carillon/accept/delete-push';
import { parsePush, parseTokens } from '@carillon/accept/parse-push';
import type { AcceptedPush } from '@carillon/accept/schema';
import { newDeviceToken } from '@carillon/core/ids';
import { createProducers, type Producers } from '@carillon/queue/producers';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import { openStore, type TestStore } from '../../../test/support/open-store.ts';
import { type OwnDatabase, startDatabase } from '../../../test/support/own-database.ts';
import { until } from '../../../test/support/until.ts';
import { getPushStatus } from '../src/push/get-push-status.ts';

const APP = 'a'.repeat(24);
const RETENTION_MS = 3_600_000;
/** More than one batch holds. */
const MANY = 1_001;

let redis: Awaited<ReturnType<typeof startRedis>>;
let database: OwnDatabase;
let store: TestStore;
let producers: Producers;
let android: string[];
beforeAll(async () => {
  [database, redis] = await Promise.all([startDatabase(), startRedis()]);
  store = await openStore({ uri: database.uri, appName: 'test' });
  await store.migrate();
  producers = createProducers(redis, () => undefined);
  const registered = Array.from({ length: MANY }, () => store.devices.register(APP, 'android'));
  android = (await Promise.all(registered)).map(({ token }) => token);
});
afterAll(async () => {
  await producers?.close();
  await store?.close();
  await redis?.stop();
  await database?.stop();
});

/** The compared fields of the response of {@link getPushStatus}. */
interface Status {
  push: { payload: object; pending_devices: string[] };
}

/** Sends a body with an idempotency key, as a service that accepts pushes does. */
async function send(value: Record<string, unknown>, key?: string): Promise<AcceptedPush> {
  const body = { value, text: JSON.stringify(value) };
  const idempotency = parseIdempotencyKey(key, body.text);
  const repeated = await replayIdempotent(store, APP, idempotency, () => parseTokens(body));
  if (repeated !== undefined) return repeated;
  const request = parsePush(body, {}, store.clock.now());
  return acceptPush(store, producers, APP, request, { idempotency });
}

const tenantPush = (id: string) => ({ app: APP, id, retentionMs: RETENTION_MS });

test.each([1, 2, MANY])(
  'a push of %d recipients is stored, enqueued, shown and deleted',
  async (devices) => {
    const dueBefore = await producers.countDue('send');
    const accepted = await send({ to: android.slice(0, devices), data: { n: devices } });
    expect(accepted).toEqual({ success: true, id: accepted.id, info: { devices, failed: [] } });
    expect(await store.pushes.find(APP, accepted.id)).toMatchObject({ state: 'open', devices });
    await until(async () => (await producers.countDue('send')) === dueBefore + 1, {
      what: 'the job is due',
    });
    const { push } = JSON.parse(await getPushStatus(store, tenantPush(accepted.id))) as Status;
    expect(push).toMatchObject({ payload: { n: devices } });
    expect(android).toEqual(expect.arrayContaining(push.pending_devices));
    await deletePush(store, producers, tenantPush(accepted.id));
    await expect(getPushStatus(store, tenantPush(accepted.id))).rejects.toMatchObject({
      code: 'INVALID_PUSH_ID',
    });
  },
);

test('a repeated key gets the first response, with its failed tokens', async () => {
  const unknown = newDeviceToken();
  const body = { to: [unknown, android[0]], data: {} };
  const first = await send(body, 'repeat');
  expect(first.info).toEqual({ devices: 1, failed: [unknown] });
  expect(await send(body, 'repeat')).toEqual(first);
  await expect(send({ ...body, data: { other: 1 } }, 'repeat')).rejects.toMatchObject({
    message: 'The Idempotency-Key was used with another request body.',
  });
});

test('a push without recipients is refused with the reason, and nothing is stored', async () => {
  const before = await store.pushes.list(APP, '~', 100);
  await expect(send({ to: newDeviceToken(), data: {} })).rejects.toMatchObject({
    code: 'NO_RECIPIENTS',
    message:
      'No devices matched the specified condition. The device token belongs to no device of this app.',
  });
  expect(await store.pushes.list(APP, '~', 100)).toEqual(before);
});

test('a push to an iOS device needs the credential of APNs', async () => {
  const { token } = await store.devices.register(APP, 'ios');
  await expect(send({ to: token, data: {} })).rejects.toMatchObject({ code: 'NO_APNS_AUTH' });
});

test('a scheduled push is accepted, and shown when it is due', async () => {
  const schedule = Math.floor(store.clock.now() / 1_000) + 3_600;
  const { id } = await send({ to: android[0], data: {}, schedule });
  expect(await store.pushes.find(APP, id)).toMatchObject({ state: 'scheduled' });
  await expect(getPushStatus(store, tenantPush(id))).rejects.toMatchObject({
    code: 'PUSH_SCHEDULED',
  });
});
