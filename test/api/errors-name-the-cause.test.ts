import { beforeAll, expect, test } from '@jest/globals';
import { callWithoutKey, postWithoutKey } from '../support/api/keyless-calls.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { runCarillonJson } from '../support/carillon.ts';
import { registerBrowser } from '../support/guarantees/register-browser.ts';
import { registerDevice } from '../support/register-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const NO_RECIPIENTS_TEXT = 'No devices matched the specified condition.';

let stack: SharedStack;
let other: TestTenant;
let token: string;
let foreignToken: string;
let deletedToken: string;
beforeAll(async () => {
  stack = await useSharedStack();
  other = await createTestTenant(stack);
  ({ token } = await registerDevice(stack.dev));
  ({ token: deletedToken } = await registerDevice(stack.dev));
  ({ token: foreignToken } = await registerDevice(other.dev));
  await stack.api('POST', '/topics/subscribe', { token, topics: ['news'] });
  await other.api('POST', '/topics/subscribe', { token: foreignToken, topics: ['theirs'] });
  await stack.api('DELETE', `/devices/${deletedToken}`);
});

const push = (fields: object) =>
  stack.api<{ error: string; info: object }>('POST', '/push', { to: token, data: {}, ...fields });
const pushError = async (fields: object) => (await push(fields)).json.error;

test('an absent, a deleted and a foreign token have one text', async () => {
  const texts = await Promise.all(
    ['absent', deletedToken, foreignToken].map((to) => pushError({ to })),
  );
  expect(new Set(texts)).toEqual(
    new Set([`${NO_RECIPIENTS_TEXT} The device token belongs to no device of this app.`]),
  );
  expect(await pushError({ to: ['absent', foreignToken] })).toBe(
    `${NO_RECIPIENTS_TEXT} None of the 2 device tokens belongs to a device of this app.`,
  );
});

test('topics without subscribers and an empty list of recipients have texts of their own', async () => {
  expect(await pushError({ to: '/topics/void' })).toBe(
    `${NO_RECIPIENTS_TEXT} The topic "void" has no subscribers.`,
  );
  expect(await pushError({ to: ['/topics/void', '/topics/theirs'] })).toBe(
    `${NO_RECIPIENTS_TEXT} None of the 2 topics has subscribers.`,
  );
  expect(await pushError({ to: [] })).toBe(`${NO_RECIPIENTS_TEXT} No recipient was given.`);
});

test.each(['news', 'topics/news', '/topic/news', '/Topics/news'])(
  'a topic of the app written as %s is recognised',
  async (to) => expect(await pushError({ to })).toMatch(/Did you mean \/topics\/news\?$/),
);

test("another app's topic is not recognised", async () => {
  expect(await pushError({ to: 'theirs' })).toBe(
    `${NO_RECIPIENTS_TEXT} The device token belongs to no device of this app.`,
  );
});

test('the error of a payload that is too long names its size and the limit', async () => {
  const error = await pushError({ data: { a: 'x'.repeat(4_992) } });
  expect(error).toMatch(/5,000 characters.* 4,096\.$/);
});

test('a schedule in milliseconds is recognised', async () => {
  const now = Date.now();
  expect(await pushError({ schedule: now + 60_000 })).toMatch(/in seconds.*in milliseconds\.$/);
  expect(await pushError({ schedule: Math.floor(now / 1_000) - 60 })).not.toMatch(/milli/);
});

test('no key, two keys and a wrong key have different texts', async () => {
  const { api } = stack.dev;
  const errors = await Promise.all(
    ['/topics', '/topics?api_key=a&api_key=b', '/topics?api_key=a'].map(async (path) => {
      const { json } = await callWithoutKey(api, path);
      expect(json).toMatchObject({ code: 'INVALID_API_KEY' });
      return json.error;
    }),
  );
  expect(errors[0]).toMatch(/No Secret API Key was given/);
  expect(new Set(errors).size).toBe(3);
});

test('unknown fields that resemble known ones are named, others are not', async () => {
  const fields = { timeToLive: 1, 'collapse-key': 'a', contentavailable: true, schedulle: 1 };
  const notification = { threadId: 'a', footer: 'b' };
  const { json } = await push({ ...fields, notification, extra: 1, '': 1 });
  expect(json.info).toEqual({
    devices: 1,
    failed: [],
    warnings: [
      'timeToLive: did you mean time_to_live?',
      'collapse-key: did you mean collapse_key?',
      'contentavailable: did you mean content_available?',
      'schedulle: did you mean schedule?',
      'notification.threadId: did you mean thread_id?',
    ],
  });
  expect((await push({ extra: 1 })).json.info).toEqual({ devices: 1, failed: [] });
});

test('fields of other services are named, with ours', async () => {
  const fields = { ttl: 60, contents: { en: 'Hi' }, include_aliases: {} };
  const { json } = await push({
    ...{ ...fields, image: 'x', android: {}, webpush: {}, message: { token: 'x' } },
    notification: { title: 'T', image: 'x', subtitle: 'S' },
  });
  expect(json.info).toEqual({
    devices: 1,
    failed: [],
    warnings: [
      'ttl: ignored; use time_to_live',
      'contents: ignored; use data or notification.body',
      'include_aliases: ignored; use to',
      'image: ignored; use fcm.notification.image',
      'android: ignored; use fcm.android',
      'webpush: ignored; use web_push',
      'message: ignored; put its fields at the top level',
      'notification.image: ignored; use fcm.notification.image',
      'notification.subtitle: ignored; use apns.payload.aps.alert',
    ],
  });
});

test.each<[fields: object, text: string]>([
  [{ apns: [] }, 'apns" must be an object.'],
  [{ fcm: 'x' }, 'fcm" must be an object.'],
  [{ apns: { aps: {} } }, 'apns.aps" can\'t be set.'],
  [{ apns: { headers: null } }, 'apns.headers" must be an object.'],
  [
    { apns: { headers: { 'apns-topic': 'x' } } },
    'apns-topic" can\'t be set: it follows from the device.',
  ],
  [{ apns: { headers: { 'apns-id': 'x' } } }, "apns-id\" can't be set: it is Carillon's."],
  [{ apns: { headers: { authorization: 'x' } } }, 'apns.headers.authorization" can\'t be set.'],
  [{ apns: { headers: { 'apns-priority': 7 } } }, 'apns-priority" must be 10, 5, 1.'],
  [
    { apns: { headers: { 'apns-push-type': 'voip' } } },
    'apns-push-type" must be alert, background.',
  ],
  [{ apns: { payload: { _pushyId: 'x' } } }, '_pushyId" can\'t be set: it is the id of the push.'],
  [{ fcm: { token: 'x' } }, 'fcm.token" can\'t be set: recipients are in to.'],
  [{ fcm: { webpush: {} } }, 'fcm.webpush" can\'t be set.'],
  [
    { fcm: { data: { count: 1 } } },
    'fcm.data.count" must be a string: FCM has no other values in data.',
  ],
  [{ fcm: { data: { 'google.x': '1' } } }, 'fcm.data.google.x" has a name of FCM itself.'],
  [{ fcm: { android: { data: { a: 'x' } } } }, 'fcm.android.data" can\'t be set: use fcm.data.'],
  [
    { fcm: { apns: { live_activity_token: 'x' } } },
    'live_activity_token" can\'t be set: it follows from the device.',
  ],
  [{ fcm: { data: null } }, 'fcm.data" must be an object.'],
  [{ web_push: { headers: { ttl: '1' } } }, 'web_push.headers.ttl" can\'t be set.'],
  [{ web_push: { headers: { urgency: 'now' } } }, 'urgency" must be very-low, low, normal, high.'],
  [{ priority: 10 }, 'priority" must be high or normal.'],
])('the error of %j names the field of a provider', async (fields, text) => {
  const { json } = await push(fields);
  expect(json).toMatchObject({ code: 'INVALID_PARAM' });
  expect(json.error).toContain(text);
});

test('__proto__ is a field like any other', async () => {
  const headers = JSON.parse('{"headers":{"__proto__":{"apns-priority":"5"}}}');
  expect(await pushError({ apns: headers })).toContain('apns.headers.__proto__" can\'t be set.');
  expect((await push({ apns: JSON.parse('{"payload":{"__proto__":{"a":1}}}') })).status).toBe(200);
});

test.each([
  [
    { message: { token: 'x', data: {} } },
    'data" is missing; it must be an object (message: ignored; put its fields at the top level).',
  ],
  [
    { to: 'x', contents: { en: 'Hi' } },
    'data" is missing; it must be an object (contents: ignored; use data or notification.body).',
  ],
  [
    { include_aliases: { a: ['x'] }, data: {} },
    'to" is missing (include_aliases: ignored; use to).',
  ],
  [{ token: 'x', data: {} }, 'to" is missing (token: did you mean tokens?).'],
  [
    { message: {}, data: '{' },
    'to" is missing (message: ignored; put its fields at the top level).',
  ],
  [{ to: 'x', data: null }, 'data" is missing; it must be an object.'],
  [{ to: null, data: {} }, 'to" is missing.'],
])('the error of %j names the field that was meant', async (body, text) => {
  expect(await stack.api('POST', '/push', body)).toMatchObject({
    status: 400,
    json: { code: 'INVALID_PARAM', error: `The parameter "${text}` },
  });
});

test('fields of data that a channel replaces are named, others are not', async () => {
  const data = { aps: {}, _pushyId: 'x', _pushyCollapseKey: 'x', in: { aps: 1 } };
  const replaced = [
    'data.aps: replaced by ours for iOS devices; use apns.payload',
    'data._pushyId: replaced by ours for iOS devices and browsers',
  ];
  expect((await push({ data })).json.info).toMatchObject({ warnings: replaced });
  expect((await push({ data, collapse_key: 'k' })).json.info).toMatchObject({
    warnings: [...replaced, 'data._pushyCollapseKey: replaced by collapse_key for browsers'],
  });
  expect((await push({ data: { in: data } })).json.info).not.toHaveProperty('warnings');
});

test('a response has at most ten warnings, of at most 64 characters', async () => {
  const names = Array.from({ length: 30 }, (_, n) => `${'_'.repeat(n + 1)}time_to_live`);
  const { json } = await push(Object.fromEntries(names.map((name) => [name, 1])));
  const { warnings } = json.info as { warnings: string[] };
  expect(warnings).toHaveLength(10);
  expect(Math.max(...warnings.map((text) => text.length))).toBeLessThanOrEqual(64);
});

test('the response to a repeated request has the warnings too', async () => {
  const headers = { 'idempotency-key': 'warned', authorization: `Bearer ${stack.dev.apiKey}` };
  const body = { to: token, data: {}, timetolive: 1 };
  const sendRequest = () => postWithoutKey(stack.dev.api, '/push', body, headers);
  const first = await sendRequest();
  expect(first.json.info).toMatchObject({ warnings: ['timetolive: did you mean time_to_live?'] });
  expect((await sendRequest()).text).toBe(first.text);
});

const NO_CONTACT = 'Web Push has no contact: Apple refuses pushes to Safari.';

test('a push to a browser of an app without a contact has a warning, others have none', async () => {
  await runCarillonJson(stack.home, 'credential', 'web-push', '--app', stack.dev.app);
  const [browser, topic] = [await registerBrowser(stack.dev), 'browsers-and-others'];
  for (const one of [browser.token, token])
    await stack.api('POST', '/topics/subscribe', { token: one, topics: [topic] });
  const schedule = Math.floor(Date.now() / 1_000) + 86_400;
  const warnedOf = async (fields: object) => (await push(fields)).json.info;
  const warnings = [NO_CONTACT];
  await until(async () => 'warnings' in (await warnedOf({ to: browser.token })));
  expect(await warnedOf({ to: browser.token })).toEqual({ devices: 1, failed: [], warnings });
  expect(await warnedOf({ to: `/topics/${topic}` })).toEqual({ devices: 2, failed: [], warnings });
  expect(await warnedOf({ to: `/topics/${topic}`, schedule })).toMatchObject({ warnings });
  expect(await warnedOf({ to: [token, browser.token], timetolive: 1 })).toMatchObject({
    warnings: [NO_CONTACT, 'timetolive: did you mean time_to_live?'],
  });
  expect(await warnedOf({ to: token })).toEqual({ devices: 1, failed: [] });
  expect(await warnedOf({ to: '/topics/news' })).toEqual({ devices: 1, failed: [] });
});

test('it is repeated as it was, and ends when the app gets a contact', async () => {
  const { token: to } = await registerBrowser(stack.dev);
  const headers = { 'idempotency-key': 'no contact', authorization: `Bearer ${stack.dev.apiKey}` };
  const sendRequest = () => postWithoutKey(stack.dev.api, '/push', { to, data: {} }, headers);
  const first = await sendRequest();
  expect(first.json.info).toEqual({ devices: 1, failed: [], warnings: [NO_CONTACT] });
  const args = ['credential', 'web-push', '--app', stack.dev.app, '--contact', 'mailto:a@mail.net'];
  await runCarillonJson(stack.home, ...args);
  await until(async () => !('warnings' in (await push({ to })).json.info));
  expect((await sendRequest()).text).toBe(first.text);
});

test('the error of data as a string names the field, not the body', async () => {
  expect(await pushError({ data: '{"a":1}' })).toMatch(/"data" must be an object, not a string/);
  await stack.api('GET', '/topics');
});
