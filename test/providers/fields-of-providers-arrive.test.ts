import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { type Sent, send } from '../support/end-to-end/pushes.ts';
import {
  type ProviderDevice,
  registerAndroidByFcm,
  registerIphone,
  registerSimulatedBrowser,
} from '../support/providers/devices.ts';
import type { ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import type { Credentials } from '../support/register-device.ts';
import { useSharedProviders } from '../support/shared-stack.ts';

let fixture: ProviderFixture;
let tenant: TestTenant;
let devices: Record<'iPhone' | 'Android' | 'iPhone by FCM' | 'browser', ProviderDevice>;
beforeAll(async () => {
  fixture = await useSharedProviders();
  tenant = await fixture.tenant({ fcm: 0, fcmNotification: true });
  const [fcmToken, { app, dev }] = [`fcm-${randomBytes(20).toString('hex')}`, tenant];
  const register = { appId: app, platform: 'ios', fcmToken };
  const { json } = await tenant.api<Credentials>('POST', '/register', register);
  devices = {
    iPhone: await registerIphone(dev),
    Android: await registerAndroidByFcm(dev),
    'iPhone by FCM': { ...json, address: fcmToken },
    browser: await registerSimulatedBrowser(dev, fixture.sandbox),
  };
});
afterAll(() => fixture?.close());

/** Fields of all channels at once. */
const ALERT = { notification: { title: 'T', body: 'B' } };
const aps = (fields: object) => ({ apns: { payload: { aps: fields } } });
const header = (name: string, value: unknown) => ({ apns: { headers: { [name]: value } } });
const android = (fields: object) => ({ fcm: { android: fields } });
const shown = (fields: object) => ({ fcm: { android: { notification: fields } } });

async function sendToAll(fields: object): Promise<Sent> {
  const tokens = Object.values(devices).map(({ token }) => token);
  return send(tenant, tokens, { data: { message: 'M', n: 1 }, ...fields });
}

/** Returns what one of the devices' providers got of a push: its headers and its payload. */
async function receivedFor({ id }: Pick<Sent, 'id'>, device: keyof typeof devices) {
  const received = await fixture.sandbox.received(id);
  const [one, ...others] = received.filter(({ to }) => to === devices[device].address);
  expect([one?.status, others]).toEqual([device === 'browser' ? 201 : 200, []]);
  return { ...one?.headers, ...one?.payload };
}

const IOS = ['iPhone', 'iPhone by FCM'] as const;
/** Wraps what APNs gets as FCM gets it. */
const expectedOf = (device: string, expected: object) => {
  const { aps: inner, ...headers } = expected as { aps?: object };
  const payload = inner === undefined ? {} : { payload: { aps: inner } };
  const byFcm = { apns: { ...(Object.keys(headers).length > 0 && { headers }), ...payload } };
  return device === 'iPhone by FCM' ? byFcm : expected;
};

test.each<[what: string, fields: object, expected: object]>([
  [
    'a subtitle',
    { ...ALERT, ...aps({ alert: { subtitle: 'S' } }) },
    { aps: { alert: { title: 'T', body: 'B', subtitle: 'S' } } },
  ],
  [
    'an interruption level',
    { ...ALERT, ...aps({ 'interruption-level': 'time-sensitive' }) },
    { aps: { 'interruption-level': 'time-sensitive' } },
  ],
  [
    'a relevance score',
    { ...ALERT, ...aps({ 'relevance-score': 0.75 }) },
    { aps: { 'relevance-score': 0.75 } },
  ],
  [
    'a target content id',
    { ...ALERT, ...aps({ 'target-content-id': 'w' }) },
    { aps: { 'target-content-id': 'w' } },
  ],
  [
    'a filter criteria',
    { ...ALERT, ...aps({ 'filter-criteria': 'work' }) },
    { aps: { 'filter-criteria': 'work' } },
  ],
  [
    'a launch image',
    { ...ALERT, ...aps({ alert: { 'launch-image': 'i.png' } }) },
    { aps: { alert: { 'launch-image': 'i.png' } } },
  ],
  [
    'a localized subtitle',
    { ...ALERT, ...aps({ alert: { 'subtitle-loc-key': 'K', 'subtitle-loc-args': ['a'] } }) },
    { aps: { alert: { 'subtitle-loc-key': 'K', 'subtitle-loc-args': ['a'] } } },
  ],
  [
    'a critical sound',
    { ...ALERT, ...aps({ sound: { critical: 1, name: 'a.caf', volume: 0.5 } }) },
    { aps: { sound: { critical: 1, name: 'a.caf', volume: 0.5 } } },
  ],
  ['badge 0', { ...ALERT, ...aps({ badge: 0 }) }, { aps: { badge: 0 } }],
  [
    'an action category',
    { ...ALERT, ...aps({ category: 'REPLY' }) },
    { aps: { category: 'REPLY' } },
  ],
  ['a thread', { ...ALERT, ...aps({ 'thread-id': 't' }) }, { aps: { 'thread-id': 't' } }],
  [
    'a mutable content',
    { ...ALERT, ...aps({ 'mutable-content': 1 }) },
    { aps: { 'mutable-content': 1 } },
  ],
  ['an alert that is text', aps({ alert: 'Hi' }), { aps: { alert: 'Hi' } }],
  ['no body', { ...ALERT, ...aps({ alert: { body: null } }) }, { aps: { alert: { title: 'T' } } }],
  ['an expiration', header('apns-expiration', 0), { 'apns-expiration': '0' }],
  ['a collapse id', header('apns-collapse-id', 'score'), { 'apns-collapse-id': 'score' }],
  ['a low priority', header('apns-priority', 1), { 'apns-priority': '1' }],
  ['normal priority', { priority: 'normal' }, { 'apns-priority': '5' }],
])('iPhones get %s', async (_what, fields, expected) => {
  const push = await sendToAll(fields);
  await untilOutcomeCounts(fixture.store, push, { sent: 4 });
  for (const device of IOS)
    expect(await receivedFor(push, device)).toMatchObject(expectedOf(device, expected));
});

test.each<[what: string, fields: object, expected: object]>([
  [
    'a channel',
    shown({ channel_id: 'news' }),
    { android: { notification: { channel_id: 'news' } } },
  ],
  ['a tag', shown({ tag: 'a' }), { android: { notification: { tag: 'a' } } }],
  [
    'an icon and a color',
    shown({ icon: 'i', color: '#ff0000' }),
    { android: { notification: { icon: 'i', color: '#ff0000' } } },
  ],
  ['a sound', shown({ sound: 'ring' }), { android: { notification: { sound: 'ring' } } }],
  [
    'a click action',
    shown({ click_action: 'OPEN' }),
    { android: { notification: { click_action: 'OPEN' } } },
  ],
  [
    'a count',
    shown({ notification_count: 3 }),
    { android: { notification: { notification_count: 3 } } },
  ],
  [
    'a visibility',
    shown({ visibility: 'PRIVATE' }),
    { android: { notification: { visibility: 'PRIVATE' } } },
  ],
  [
    'a notification priority',
    shown({ notification_priority: 'PRIORITY_MAX' }),
    { android: { notification: { notification_priority: 'PRIORITY_MAX' } } },
  ],
  [
    'localized texts',
    shown({ title_loc_key: 'K', title_loc_args: ['a'] }),
    { android: { notification: { title_loc_key: 'K', title_loc_args: ['a'] } } },
  ],
  [
    'an image',
    { fcm: { notification: { image: 'https://example.com/i.png' } } },
    { notification: { body: 'M', image: 'https://example.com/i.png' } },
  ],
  [
    'another title',
    { fcm: { notification: { title: 'Other' } } },
    { notification: { title: 'Other', body: 'M' } },
  ],
  [
    'an analytics label',
    { fcm: { fcm_options: { analytics_label: 'spring' } } },
    { fcm_options: { analytics_label: 'spring' } },
  ],
  ['a time to live', android({ ttl: '60s' }), { android: { ttl: '60s' } }],
  [
    'a package',
    android({ restricted_package_name: 'com.example' }),
    { android: { restricted_package_name: 'com.example' } },
  ],
  ['direct boot', android({ direct_boot_ok: true }), { android: { direct_boot_ok: true } }],
  [
    'data of its own',
    { fcm: { data: { screen: 'inbox' } } },
    { data: { screen: 'inbox', payload: '{"message":"M","n":1}' } },
  ],
  ['normal priority', { priority: 'normal' }, { android: { priority: 'normal' } }],
])('Android phones get %s', async (_what, fields, expected) => {
  const push = await sendToAll(fields);
  await untilOutcomeCounts(fixture.store, push, { sent: 4 });
  expect(await receivedFor(push, 'Android')).toMatchObject(expected);
});

test.each<[what: string, fields: object, expected: object]>([
  ['an urgency', { web_push: { headers: { urgency: 'very-low' } } }, { urgency: 'very-low' }],
  ['a topic', { web_push: { headers: { topic: 'score' } } }, { topic: 'score' }],
  ['normal priority', { priority: 'normal' }, { urgency: 'normal' }],
  [
    'actions',
    { web_push: { payload: { actions: [{ action: 'a', title: 'A' }] } } },
    { actions: [{ action: 'a', title: 'A' }], message: 'M' },
  ],
  ['less', { web_push: { payload: { message: null } } }, { n: 1 }],
])('browsers get %s', async (_what, fields, expected) => {
  const push = await sendToAll(fields);
  await untilOutcomeCounts(fixture.store, push, { sent: 4 });
  expect(await receivedFor(push, 'browser')).toMatchObject(expected);
});

test.each<[what: string, fields: object, failed: (keyof typeof devices)[]]>([
  ['APNs', { apns: { payload: { text: 'x'.repeat(4_097) } } }, ['iPhone', 'iPhone by FCM']],
  ['FCM', { fcm: { data: { text: 'x'.repeat(4_097) } } }, ['Android', 'iPhone by FCM']],
  [
    'a notification of FCM',
    { fcm: { android: { notification: { ticker: 'x'.repeat(4_097) } } } },
    ['Android', 'iPhone by FCM'],
  ],
  ['Web Push', { web_push: { payload: { text: 'x'.repeat(4_097) } } }, ['browser']],
])('fields too large for %s end its recipients alone', async (_what, fields, failed) => {
  const push = await sendToAll(fields);
  const counts = { sent: 4 - failed.length, failed: failed.length };
  await untilOutcomeCounts(fixture.store, push, counts);
  const { json } = await tenant.api<{ reasons: object }>('GET', `/pushes/${push.id}/outcomes`);
  expect(json.reasons).toEqual({ 'payload-too-large': failed.length });
  const reached = (await fixture.sandbox.received(push.id)).map(({ to }) => to).sort();
  const others = Object.entries(devices).filter(([name]) => !failed.some((one) => one === name));
  expect(reached).toEqual(others.map(([, { address }]) => address).sort());
});

test('a refusal of a field by the provider ends that recipient alone', async () => {
  const push = await sendToAll({ fcm: { android: { no_such_field: 1 } } });
  await untilOutcomeCounts(fixture.store, push, { sent: 2, failed: 2 });
  await untilOutcomeCounts(fixture.store, await sendToAll({}), { sent: 4 });
});

/** Sends a push to all devices whose fields are this JSON text. */
async function sendText(fields: string): Promise<{ id: string }> {
  const to = JSON.stringify(Object.values(devices).map(({ token }) => token));
  const { api, apiKey } = tenant.dev;
  const response = await fetch(new URL(`/push?api_key=${apiKey}`, api), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: `{"to":${to},"data":{"big":98765432109876543210},${fields}}`,
  });
  return (await response.json()) as { id: string };
}

test.each(['1790000000', '1790000000.0', '1.79e9', '"1790000000"'])(
  'headers that are written as %s are texts for each provider',
  async (time) => {
    const headers = `{"headers":{"apns-expiration":${time},"apns-collapse-id":1e3}}`;
    const topic = '"web_push":{"headers":{"topic":1e5}}';
    const push = await sendText(`"apns":${headers},"fcm":{"apns":${headers}},${topic}`);
    await untilOutcomeCounts(fixture.store, push, { sent: 4 });
    const expected = { 'apns-expiration': '1790000000', 'apns-collapse-id': '1000' };
    expect(await receivedFor(push, 'iPhone')).toMatchObject(expected);
    expect(await receivedFor(push, 'iPhone by FCM')).toMatchObject({ apns: { headers: expected } });
    expect(await receivedFor(push, 'browser')).toMatchObject({ topic: '100000' });
  },
);

test.each<
  [what: string, fields: Record<string, unknown>, type: string, priority: string, android: string]
>([
  [
    'an alert of its own is shown at once',
    { content_available: true, ...aps({ alert: 'Hi' }), fcm: { notification: { title: 'T' } } },
    ...(['alert', '10', 'high'] as const),
  ],
  ['only wakes the app', aps({ 'content-available': 1 }), 'background', '5', 'high'],
])('a push that by its fields %s has the priority of that', async (_what, fields, ...expected) => {
  const [type, priority, onAndroid] = expected;
  const push = await send(
    tenant,
    Object.values(devices).map(({ token }) => token),
    fields,
  );
  await untilOutcomeCounts(fixture.store, push, { sent: 4 });
  const headers = { 'apns-push-type': type, 'apns-priority': priority };
  for (const device of IOS)
    expect(await receivedFor(push, device)).toMatchObject(expectedOf(device, headers));
  expect(await receivedFor(push, 'Android')).toMatchObject({ android: { priority: onAndroid } });
});

test('large numbers arrive as they were sent', async () => {
  const text = '{"score":12345678901234567890,"ratio":1.0}';
  const push = await sendText(`"apns":{"payload":${text}},"web_push":{"payload":${text}}`);
  await untilOutcomeCounts(fixture.store, push, { sent: 4 });
  const log = await fixture.sandbox.readLog('apns');
  expect(log).toContain('"big":98765432109876543210');
  expect(log).toContain('"score":12345678901234567890,"ratio":1.0');
});
