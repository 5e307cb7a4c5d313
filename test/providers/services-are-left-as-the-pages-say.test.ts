import { randomBytes, randomUUID } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { formatCsvRecord } from '../../packages/core/src/csv.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { codeBlock } from '../support/documents/code-blocks.ts';
import { createReader, type Reader } from '../support/documents/reader.ts';
import { getDeviceInfo, send } from '../support/end-to-end/pushes.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import { startElectronApp } from '../support/official-clients/electron-app.ts';
import type { ProviderFixture } from '../support/providers/fixture.ts';
import { untilFinal } from '../support/providers/outcomes.ts';
import { useSharedProviders } from '../support/shared-stack.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/until.ts';

const COMMON = 'docs/use/export-and-import.md';
const PINPOINT = 'docs/use/move/pinpoint.md';
const ONESIGNAL = 'docs/use/move/onesignal.md';
const FIREBASE = 'docs/use/move/firebase.md';
const GORUSH = 'docs/use/move/gorush.md';
const PUSHY = 'docs/use/move/pushy.md';
const BUNDLE = 'com.example.carillon';

let fixture: ProviderFixture;
let tenant: TestTenant;
let reader: Reader;
/** Values of the placeholders that all pages have. */
let values: Record<'API' | 'KEY' | 'APP' | 'BUNDLE', string>;
beforeAll(async () => {
  fixture = await useSharedProviders();
});
afterAll(() => fixture?.close());
beforeEach(async () => {
  tenant = await fixture.tenant({ fcm: 0, fcmNotification: true });
  reader = createReader(fixture.stack.home);
  const { api, apiKey, app } = tenant.dev;
  values = { API: api, KEY: apiKey, APP: app, BUNDLE };
});

const newFcmToken = () => `fcm:${randomBytes(20).toString('hex')}`;
const newApnsToken = () => randomBytes(32).toString('hex');
const runShell = (text: string, more: Record<string, string> = {}) =>
  reader.runShell(text, { ...values, ...more });

/** Runs the commands that check an import and then make it: both print the counts of it. */
async function importAs(page: string, imported: number, refused: number): Promise<string[]> {
  const [check = '', ...rest] = (await runShell(codeBlock(page, 'Import'))).trimEnd().split('\n');
  expect(check).toContain(`${imported} entries would be imported, 0 there already, ${refused} ref`);
  return rest;
}

/** Sends the push of a page to a device. Returns what its provider got. */
async function sendAs(text: string, token: string) {
  const push = JSON.parse(await runShell(text, { TOKEN: token })) as { id: string };
  expect(await untilFinal(fixture.store, push, token)).toEqual({ outcome: 'sent' });
  return fixture.sandbox.received(push.id);
}

/** Finds the new tokens of imported devices by their provider tokens. */
async function findTokens(): Promise<Map<string, string>> {
  await runShell(codeBlock(COMMON, 'Move from another service'));
  const lines = (await runShell('cat tokens.csv')).trimEnd().split('\n');
  return new Map(lines.map((line) => line.split(',') as [string, string]));
}

async function register(fields: object): Promise<{ token: string; auth: string }> {
  const body = { platform: 'android', appId: tenant.app, ...fields };
  return (await tenant.api<{ token: string; auth: string }>('POST', '/register', body)).json;
}

test('from Amazon Pinpoint', async () => {
  const [android, iphone, viaFcm, opted] = [randomUUID(), randomUUID(), randomUUID(), 'x/y+z'];
  const endpoint = (Id: string, ChannelType: string, Address: string, Platform = 'android') =>
    JSON.stringify({
      ...{ ChannelType, Address, EndpointStatus: 'ACTIVE', OptOut: 'NONE' },
      ...{ Demographic: { Platform }, EffectiveDate: '2026-02-07T14:29:40.220Z' },
      ...{ User: { UserId: `user of ${Id}` }, Id, CreationDate: '2025-02-07T14:29:40.220Z' },
    });
  const [fcm, apns] = [newFcmToken(), newApnsToken()];
  const first = [endpoint(android, 'GCM', fcm), endpoint(iphone, 'APNS', apns, 'ios')];
  const second = [
    endpoint(viaFcm, 'GCM', newFcmToken(), 'iOS'),
    endpoint(opted, 'GCM', newFcmToken()),
    endpoint('mail', 'EMAIL', 'a@example.org'),
  ];
  reader.write('part-0000.gz', gzipSync(`${first.join('\n')}\n`));
  reader.write('part-0001.gz', gzipSync(`${second.join('\n')}\n`));
  expect(await importAs(PINPOINT, 4, 1)).toEqual([
    '1 line, the first is 5: ChannelType "EMAIL" has no channel here',
    '4 entries imported, 0 there already, 1 refused.',
    'Refused lines with their reasons: endpoints.ndjson.refused.ndjson',
  ]);
  const users = await reader.runJs(codeBlock(PINPOINT, 'Users and segments'));
  expect(users.split('\n')[1]).toBe(`user of ${iphone}\t${iphone}\t${apns}`);

  const text = codeBlock(PINPOINT, 'Backend');
  const [toIphone] = await sendAs(text, iphone);
  expect(toIphone?.payload).toMatchObject({ aps: { alert: { title: 'News', body: 'Hello' } } });
  const [toAndroid] = await sendAs(text, android);
  expect(toAndroid).toMatchObject({
    to: fcm,
    payload: {
      notification: { title: 'News', body: 'Hello' },
      data: { payload: '{"title":"News","message":"Hello"}' },
    },
  });
  await sendAs(text, viaFcm);
});

test('from OneSignal', async () => {
  const [android, iphone, old] = [randomUUID(), randomUUID(), randomUUID()];
  const date = '2025-03-01 10:00:00 UTC';
  const head = 'id,identifier,device_type,tags,last_active,created_at,invalid_identifier';
  const line = (id: string, identifier: string, type: number, invalid = 'f') =>
    formatCsvRecord([id, identifier, type, '{"vip":"1"}', date, date, invalid, `user of ${id}`]);
  const records = [
    `${head},external_user_id\r\n`,
    line(android, newFcmToken(), 1),
    line(iphone, newApnsToken(), 0),
    line(old, newFcmToken(), 1, 't'),
    line(randomUUID(), 'https://push.example/x', 5),
  ];
  reader.write('users.csv.gz', gzipSync(records.join('')));
  await importAs(ONESIGNAL, 2, 2);
  for (const token of [android, iphone])
    expect(await sendAs(codeBlock(ONESIGNAL, 'Backend'), token)).toHaveLength(1);
  await runShell(codeBlock(ONESIGNAL, 'Import', 1), { TOKEN: android });
  expect((await getDeviceInfo(tenant, android)).subscriptions).toEqual(['vip']);
});

test('from Firebase, with its own service account', async () => {
  const { ca, fcm } = fixture.credentials;
  reader.write('service-account.json', JSON.stringify(fcm.serviceAccount));
  reader.write('ca.pem', ca);
  const sandbox = `--gateway ${fcm.host}:${fcm.port} --gateway-ca ca.pem`;
  const save = codeBlock(FIREBASE, 'Backend').replace('account.json', `account.json ${sandbox}`);
  await runShell(save);

  const [android, iphone] = [newFcmToken(), newFcmToken()];
  const tokens = { FCM_TOKEN: android, IOS_FCM_TOKEN: iphone };
  expect(await runShell(codeBlock(FIREBASE, 'Import'), tokens)).toContain('2 entries imported');
  const found = await findTokens();
  const [received] = await sendAs(codeBlock(FIREBASE, 'Backend', 1), found.get(android) ?? '');
  expect(received?.payload).toMatchObject({
    data: { payload: '{"title":"News","message":"Hello","article":7}', article: '7' },
    notification: { title: 'News', body: 'Hello' },
  });
  await sendAs(codeBlock(FIREBASE, 'Backend', 1), found.get(iphone) ?? '');

  await tenant.api('POST', '/topics/subscribe', { token: found.get(android), topics: ['old'] });
  const registered = JSON.parse(
    await runShell(codeBlock(FIREBASE, 'Apps'), { FCM_TOKEN: android }),
  );
  const { token: TOKEN, auth: AUTH } = registered;
  await runShell(codeBlock(FIREBASE, 'Apps', 1), { TOKEN, AUTH });
  expect((await getDeviceInfo(tenant, TOKEN)).subscriptions).toEqual(['news', 'old']);
  // Its imported token goes on to reach it.
  expect(TOKEN).not.toBe(found.get(android));
  const [again] = await sendAs(codeBlock(FIREBASE, 'Backend', 1), found.get(android) ?? '');
  expect(again?.to).toBe(android);
});

test('from gorush, whose apps stay as they are', async () => {
  const [android, iphone] = [newFcmToken(), newApnsToken()];
  reader.write('ios.csv', `${iphone}\n${newApnsToken()}\n`);
  reader.write('android.csv', `${android}\n`);
  expect(await importAs(GORUSH, 2, 0)).toEqual([
    '2 entries imported, 0 there already, 0 refused.',
    '1 entry imported, 0 there already, 0 refused.',
  ]);
  const found = await findTokens();
  for (const address of [android, iphone]) {
    const [received] = await sendAs(codeBlock(GORUSH, 'Backend'), found.get(address) ?? '');
    expect(received?.to).toBe(address);
  }
  const [first, next] = [newFcmToken(), newFcmToken()];
  const made = JSON.parse(await runShell(codeBlock(GORUSH, 'Apps'), { FCM_TOKEN: first }));
  expect(await register({ ...made, fcmToken: next })).toEqual(made);
  const [received] = await sendAs(codeBlock(GORUSH, 'Backend'), made.token);
  expect(received?.to).toBe(next);
});

test('from Pushy, with its clients', async () => {
  const device = await newMqttDevice(tenant.dev);
  await device.connect();
  const { KEY, API } = values;
  await reader.runJs(codeBlock(PUSHY, 'Backend'), { KEY, API, TOKEN: device.token });
  expect((await device.waitFor(1)).map(({ payload }) => payload)).toEqual(['{"message":"Hello"}']);
  await device.disconnect();

  const [token, auth] = [randomBytes(11).toString('hex'), randomBytes(30).toString('hex')];
  const printed = await runShell(codeBlock(PUSHY, 'Tokens'), { TOKEN: token, AUTH: auth });
  expect(printed).toContain('1 entry imported');
  const { api, mqtts, ca } = tenant.dev;
  const app = await startElectronApp(createTemporaryFolder(), { api, mqtt: mqtts ?? '' }, ca);
  await app.call('setDeviceCredentials', token, auth);
  expect(await app.call('register', { appId: tenant.app })).toBe(token);
  await until(() => app.connected);
  const { payload } = await send(tenant, '/topics/sport');
  await until(() => app.payloads.length === 1);
  expect(app.payloads).toEqual([JSON.parse(payload)]);
  await app.quit();
});
