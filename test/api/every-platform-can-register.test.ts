import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { PUSH_KINDS } from '../../packages/core/src/channels/apns.ts';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { callWithoutKey, postWithoutKey } from '../support/api/keyless-calls.ts';
import { appleAddress, webSubscription } from '../support/api/provider-addresses.ts';
import { createTestTenant, type TestTenant, withStore } from '../support/api/tenants.ts';
import { getDeviceInfo, send, untilOutcome } from '../support/end-to-end/pushes.ts';
import { type ServiceProcess, startService } from '../support/operators/service-process.ts';
import type { Credentials } from '../support/register-device.ts';
import { type SharedStack, useSharedProviders, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const DAY = 86_400;
const WEEK = 7 * DAY;

let stack: SharedStack;
beforeAll(async () => {
  stack = await useSharedStack();
  await withStore(stack, ({ apps }) =>
    apps.updateSettings(stack.dev.app, {
      bundleIds: ['com.example.app'],
      webHosts: ['www.example.com'],
    }),
  );
});

const post = <T = Record<string, unknown>>(path: string, body: unknown) =>
  postWithoutKey<T>(stack.dev.api, path, body);

async function register(fields: object): Promise<Credentials> {
  const body = { appId: stack.dev.app, sdk: 1, ...fields };
  // As an SDK does: a busy machine may be too late once.
  const { status, json, text } = await until(async () => {
    const response = await post<Credentials>('/register', body);
    return response.status !== 503 && response;
  });
  if (status !== 200) throw new Error(`register: ${text}`);
  return json;
}

/** Returns the token of the device that has replaced a device; undefined if none has. */
async function findSuccessor({ token }: Credentials): Promise<string | undefined> {
  const { json } = await stack.api<{ device: { replaced_by?: string } }>(
    'GET',
    `/devices/${token}`,
  );
  return json.device.replaced_by;
}

const ios = (fields: object) => ({ platform: 'ios', ...appleAddress(), ...fields });
const web = (fields: object, endpoint?: string) => ({
  platform: 'web',
  subscription: { ...webSubscription(endpoint), ...fields },
});
const NO_POINT = Buffer.alloc(65, 4).toString('base64');
const SHORT_AUTH = Buffer.alloc(15).toString('base64');
const LONG_ENDPOINT = `https://fcm.googleapis.com/${'x'.repeat(1 << 20)}`;
const FOREIGN_ENDPOINT = 'https://evil.example/fcm.googleapis.com';

const INVALID_REGISTRATIONS = [
  ['an app that is not there', { appId: 'f'.repeat(24) }, 'INVALID_APP_ID'],
  ['a name that no app has', ios({ appId: undefined, app: 'x.example' }), 'INVALID_APP_ID'],
  ['no app', ios({ appId: undefined }), 'INVALID_PARAM'],
  ['an app id of another form', { appId: 'F00' }, 'INVALID_PARAM'],
  ['a platform that is none', { platform: 'windows' }, 'INVALID_PARAM'],
  ['no platform', { platform: undefined }, 'INVALID_PARAM'],
  ['a push token that is not hexadecimal', ios({ pushToken: 'zz'.repeat(32) }), 'INVALID_PARAM'],
  ['a push token without environment', ios({ pushEnvironment: undefined }), 'INVALID_PARAM'],
  ['two push tokens', ios({ fcmToken: 'fcm1' }), 'INVALID_PARAM'],
  ['an FCM token with a space', { platform: 'ios', fcmToken: 'fcm 1' }, 'INVALID_PARAM'],
  ['an own id that is short', { deviceId: 'x'.repeat(15) }, 'INVALID_PARAM'],
  ['an own id that is long', { deviceId: 'x'.repeat(129) }, 'INVALID_PARAM'],
  ['a token that is no text', { token: 1, auth: 'x' }, 'INVALID_PARAM'],
  ['a kind that is none', ios({ pushKind: 'background' }), 'INVALID_PARAM'],
  ['an end at once', ios({ expires_in: 0 }), 'INVALID_PARAM'],
  ['more than a year', ios({ expires_in: 365 * 86_400 + 1 }), 'INVALID_PARAM'],
  ['half a second', ios({ expires_in: 1.5 }), 'INVALID_PARAM'],
  ['no subscription', { platform: 'web' }, 'INVALID_PARAM'],
  ['an endpoint of no push service', web({}, FOREIGN_ENDPOINT), 'INVALID_PARAM'],
  ['a key that is no point of the curve', web({ key: NO_POINT }), 'INVALID_PARAM'],
  ['an auth of 15 bytes', web({ auth: SHORT_AUTH }), 'INVALID_PARAM'],
  ['a megabyte', web({}, LONG_ENDPOINT), 'BODY_TOO_LARGE'],
] as const;

describe('registering', () => {
  test.each([
    ['electron', () => ({})],
    ['python', () => ({})],
    ['android', () => ({})],
    ['android', () => ({ fcmToken: `fcm:${randomBytes(20).toString('hex')}` })],
    ['ios', () => ({ ...appleAddress() })],
    ['ios', () => ({ ...appleAddress(), appId: undefined, app: 'com.example.app' })],
    ['ios', () => ({ pushToken: null, pushEnvironment: 'development', pushBundle: 'a.b' })],
    ['ios', () => ({ pushToken: null, fcmToken: `fcm:${randomBytes(20).toString('hex')}` })],
    ['web', () => ({ subscription: webSubscription() })],
    ['web', () => ({ subscription: webSubscription(), appId: undefined, app: 'www.example.com' })],
  ])('%s gets valid credentials', async (platform, fields) => {
    const device = await register({ platform, ...fields() });
    expect((await post('/devices/auth', device)).json).toEqual({ success: true });
    expect((await getDeviceInfo(stack, device.token)).device.platform).toBe(platform);
  });

  test.each(INVALID_REGISTRATIONS)('with %s is refused', async (_what, fields, code) => {
    const response = await post('/register', {
      appId: stack.dev.app,
      platform: 'electron',
      ...fields,
    });
    expectApiError(response, code);
  });

  test('a page of any origin may send these requests, because no key is involved', async () => {
    const preflight = await fetch(new URL('/register', stack.dev.api), { method: 'OPTIONS' });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-origin')).toBe('*');
    const { headers } = await post('/devices/auth', {});
    expect(headers.get('access-control-allow-origin')).toBe('*');
    const { headers: keyed } = await stack.api('GET', '/topics');
    expect(keyed.get('access-control-allow-origin')).toBeNull();
  });
});

describe('a browser whose push service is of no vendor', () => {
  const RULE = 'The parameter "subscription.endpoint" must be';
  let open: ServiceProcess;
  beforeAll(async () => {
    const { mongodb: MONGODB_URI, redis: REDIS_URL } = stack.dev;
    open = await startService('api', { MONGODB_URI, REDIS_URL, WEB_PUSH_HOSTS: '*' });
    await open.untilReady();
  }, 200_000);
  afterAll(() => open?.stop());

  const registerAt = (api: string, endpoint: string) =>
    postWithoutKey<{ token?: string; error?: string }>(api, '/register', {
      appId: stack.dev.app,
      ...web({}, endpoint),
    });
  const openApi = () => `http://127.0.0.1:${open.port}`;

  test.each(['https://ntfy.example:8443/upAbC123?up=1', 'https://1.1.1.1:8443/x'])(
    'registers %s with WEB_PUSH_HOSTS=*, and not without',
    async (endpoint) => {
      expect((await registerAt(openApi(), endpoint)).json.token).toEqual(expect.any(String));
      const refused = await registerAt(stack.dev.api, endpoint);
      expectApiError(refused, 'INVALID_PARAM');
      expect(refused.json.error).toBe(`${RULE} the address of a push service.`);
    },
  );

  test.each([
    ...['http://ntfy.example/x', 'https://user@ntfy.example/x', 'https://localhost/x'],
    ...['https://2130706433/x', 'https://[::ffff:10.0.0.1]/x', 'https://169.254.169.254/x'],
  ])('is told what is allowed instead of %s', async (endpoint) => {
    const refused = await registerAt(openApi(), endpoint);
    expectApiError(refused, 'INVALID_PARAM');
    expect(refused.json.error).toBe(`${RULE} an https URL with a public host.`);
  });
});

describe('a page that requests the public key of Web Push', () => {
  const getKey = (query: string) => callWithoutKey(stack.dev.api, `/web-push/public-key${query}`);

  test.each([
    ['?app=www.example.com', 'NO_WEB_PUSH_AUTH'],
    ['?appId=ffffffffffffffffffffffff', 'INVALID_APP_ID'],
    ['?app=unknown.example', 'INVALID_APP_ID'],
    ['', 'INVALID_PARAM'],
    ['?appId=F00', 'INVALID_PARAM'],
    ['?app=', 'INVALID_PARAM'],
    ['?app=a.example&app=b.example', 'INVALID_PARAM'],
  ] as const)('is refused: %p, %s', async (query, code) => {
    const response = await getKey(query);
    expectApiError(response, code);
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
  });

  test.each(['appId', 'app'])('gets it by %s, whatever its own origin', async (name) => {
    const providers = await useSharedProviders();
    const host = `${name.toLowerCase()}.example.com`;
    const { app } = await providers.tenant({ webHosts: [host] });
    await providers.close();
    const { status, json, headers } = await getKey(`?${name}=${name === 'app' ? host : app}`);
    // An uncompressed point of 65 bytes.
    expect([status, json]).toEqual([200, { publicKey: expect.stringMatching(/^B[\w-]{86}$/) }]);
    expect(headers.get('access-control-allow-origin')).toBe('*');
  });
});

describe('an iOS device', () => {
  const live = () => ios({ pushKind: 'liveactivity', expires_in: WEEK });
  const read = async ({ token }: Credentials) => (await getDeviceInfo(stack, token)).device;
  /** Returns in how many days a device ends. */
  const daysOf = async (device: Credentials) =>
    Math.round(((await read(device)).expires ?? Number.NaN) - Date.now() / 1_000) / DAY;

  test.each(PUSH_KINDS)('of the kind %s shows it', async (pushKind) => {
    const { push_kind } = await read(await register(ios({ pushKind })));
    expect(push_kind).toBe(pushKind === 'alert' ? undefined : pushKind);
  });

  test('has a kind with an APNs token only', async () => {
    const fcm = { fcmToken: `fcm:${randomBytes(20).toString('hex')}` };
    const noToken = { platform: 'ios', pushKind: 'voip' };
    const device = await register(live());
    for (const fields of [noToken, { ...noToken, ...fcm }, { ...noToken, pushToken: null }]) {
      const bodies = { '/register': { appId: stack.dev.app }, '/devices/token': device };
      for (const [path, proof] of Object.entries(bodies)) {
        const response = await post(path, { ...fields, ...proof });
        expectApiError(response, 'INVALID_PARAM');
        expect(response.json.error).toContain('"pushKind"');
      }
    }
    const alert = { platform: 'ios', pushKind: 'alert' };
    for (const fields of [alert, { ...alert, ...fcm }])
      expect(await read(await register(fields))).not.toHaveProperty('push_kind');
  });

  test('keeps its kind with a new token, unless it names another', async () => {
    const device = await register(live());
    const kindAfter = async (fields: object) => {
      expect((await post('/devices/token', { ...device, ...fields })).status).toBe(200);
      return (await read(device)).push_kind;
    };
    expect(await kindAfter(appleAddress())).toBe('liveactivity');
    expect(await kindAfter({ ...appleAddress(), pushKind: 'voip' })).toBe('voip');
    expect(await kindAfter(appleAddress())).toBe('voip');
    expect(await kindAfter({ ...appleAddress(), pushKind: 'alert' })).toBeUndefined();
    expect(await kindAfter({ ...appleAddress(), pushKind: 'widgets' })).toBe('widgets');
    expect(await kindAfter({ fcmToken: `fcm:${device.token}` })).toBeUndefined();
    expect(await kindAfter(appleAddress())).toBeUndefined();
  });

  test.each(['liveactivity', 'voip'] as const)(
    'is not replaced by its own token of the kind %s, though it proves to be the device',
    async (pushKind) => {
      const deviceId = randomBytes(20).toString('hex');
      const phone = await register(ios({ deviceId }));
      const other = () => register({ ...ios({ pushKind, deviceId, expires_in: WEEK }), ...phone });
      const [first, second] = [await other(), await other()];
      expect(phone.token).not.toBe(first.token);
      // A phone has any number of Live Activities at once, and one token for its calls.
      expect(second.token === first.token).toBe(pushKind === 'voip');
      expect(await read(first)).toMatchObject({ push_kind: pushKind });
      const shown = await read(phone);
      expect([shown.push_kind, shown.expires]).toEqual([undefined, undefined]);
      expect((await register(ios({ deviceId }))).token).toBe(phone.token);
    },
  );

  test('keeps its end when it registers again, unless it names another', async () => {
    const fields = live();
    const device = await register(fields);
    expect(await daysOf(device)).toBeCloseTo(7, 2);
    const renew = (changed: object) => register({ ...fields, expires_in: null, ...changed });
    expect(await renew(device)).toEqual(device);
    expect(await daysOf(device)).toBeCloseTo(7, 2);
    expect(await renew({ ...device, expires_in: 2 * WEEK })).toEqual(device);
    expect(await daysOf(device)).toBeCloseTo(14, 2);
    expect((await post('/devices/token', { ...device, ...appleAddress() })).status).toBe(200);
    expect(await daysOf(device)).toBeCloseTo(14, 2);
  });

  test('has the end that it names when it registers the address of another one, or none', async () => {
    const fields = live();
    const first = await register(fields);
    const second = await register({ ...fields, expires_in: 2 * WEEK });
    expect(await Promise.all([first, second].map(daysOf))).toEqual([
      expect.closeTo(7, 2),
      expect.closeTo(14, 2),
    ]);
    expect(await read(await register({ ...fields, expires_in: null }))).not.toHaveProperty(
      'expires',
    );
  });
});

describe('an address of a provider belongs to one device', () => {
  test('a second registration replaces the previous device, and has its topics', async () => {
    const address = appleAddress();
    const before = await register({ platform: 'ios', ...address });
    const topics = [`t-${before.token}`];
    await stack.api('POST', '/topics/subscribe', { token: before.token, topics });
    const after = await register({ platform: 'ios', ...address });
    expect(after.token).not.toBe(before.token);
    expect(await findSuccessor(before)).toBe(after.token);
    expect(await findSuccessor(after)).toBeUndefined();
    expectApiError(await post('/devices/auth', before), 'INVALID_DEVICE_AUTH');
    const { json } = await stack.api('GET', `/topics/${topics[0]}`);
    expect(json).toEqual({ subscribers: [after.token] });
  });

  test('of twenty devices that register it at once one remains', async () => {
    const subscription = webSubscription();
    const all = await Promise.all(
      Array.from({ length: 20 }, () => register({ platform: 'web', subscription })),
    );
    const successors = await Promise.all(all.map(findSuccessor));
    expect(successors.filter((one) => one === undefined)).toHaveLength(1);
  });

  test('a device may change its address, and take over that of another device', async () => {
    const [one, other] = [appleAddress(), appleAddress()];
    const first = await register({ platform: 'ios', ...one });
    const second = await register({ platform: 'ios', ...other });
    expect((await post('/devices/token', { ...first, ...appleAddress() })).status).toBe(200);
    expect((await post('/devices/token', { ...first, ...other })).json).toEqual({ success: true });
    expect(await findSuccessor(second)).toBe(first.token);
    for (const pushToken of [null, '']) {
      const none = { ...first, ...other, pushToken };
      expect((await post('/devices/token', { ...first, ...other })).status).toBe(200);
      expect((await post('/devices/token', none)).json).toEqual({ success: true });
      await register({ platform: 'ios', ...other });
      expect(await findSuccessor(first)).toBeUndefined();
    }
    const wrong = { ...first, auth: '0'.repeat(64) };
    expectApiError(await post('/devices/token', { ...wrong, ...one }), 'INVALID_DEVICE_AUTH');
    const fcm = { fcmToken: `fcm:${first.token}` };
    expect((await post('/devices/token', { ...first, ...fcm })).status).toBe(200);
    expectApiError(await post('/devices/token', { ...first, ...one, ...fcm }), 'INVALID_PARAM');
    const android = await register({ platform: 'android' });
    expect((await post('/devices/token', { ...android, fcmToken: 'one' })).status).toBe(200);
    expectApiError(await post('/devices/token', { ...android, ...one }), 'INVALID_PARAM');
    for (const fields of [one, fcm, {}]) {
      const electron = await register({ platform: 'electron' });
      expectApiError(await post('/devices/token', { ...electron, ...fields }), 'INVALID_PARAM');
    }
  });
});

describe('subscribing from either side', () => {
  test.each(['subscribe', 'unsubscribe'])(
    'a device may %s itself, and no other device',
    async (verb) => {
      const [device, other] = await Promise.all([
        register({ platform: 'electron' }),
        register({ platform: 'electron' }),
      ]);
      const path = `/devices/${verb}`;
      expect((await post(path, { ...device, topics: ['own'] })).json).toEqual({ success: true });
      const foreign = { token: other.token, auth: device.auth, topics: ['own'] };
      expectApiError(await post(path, foreign), 'INVALID_DEVICE_AUTH');
      expectApiError(await post(path, { token: device.token, topics: ['own'] }), 'INVALID_PARAM');
      expectApiError(await post(path, { ...device, topics: ['a b'] }), 'INVALID_PARAM');
    },
  );

  test('a backend may with its key, by either path', async () => {
    const { token } = await register({ platform: 'electron' });
    await stack.api('POST', '/devices/subscribe', { token, topics: ['by-key', 'too'] });
    await stack.api('POST', '/devices/unsubscribe', { token, topics: ['too'] });
    expect((await getDeviceInfo(stack, token)).subscriptions).toEqual(['by-key']);
    const wrong = await callWithoutKey(stack.dev.api, '/devices/subscribe?api_key=wrong', {
      method: 'POST',
    });
    expectApiError(wrong, 'INVALID_API_KEY');
  });
});

describe('as long as a provider is not configured', () => {
  let tenant: TestTenant;
  beforeAll(async () => {
    tenant = await createTestTenant(stack);
  });
  const registerAt = (fields: object) => register({ appId: tenant.app, ...fields });

  test('a push to iOS devices is refused, named or by topic, now or later', async () => {
    const ios = await registerAt({ platform: 'ios', ...appleAddress() });
    const android = await registerAt({ platform: 'android' });
    const topics = [`mixed-${ios.token}`];
    for (const { token } of [ios, android]) {
      await tenant.api('POST', '/topics/subscribe', { token, topics });
    }
    const later = Math.floor(Date.now() / 1_000) + 600;
    for (const fields of [
      { to: ios.token },
      { to: [android.token, ios.token] },
      { to: `/topics/${topics[0]}` },
      { to: `/topics/${topics[0]}`, schedule: later },
    ]) {
      expectApiError(await tenant.api('POST', '/push', { data: {}, ...fields }), 'NO_APNS_AUTH');
    }
    await tenant.api('POST', '/topics/unsubscribe', { token: ios.token, topics });
    expect((await send(tenant, `/topics/${topics[0]}`)).info.devices).toBe(1);
  });

  test('a push to a browser is accepted and ends visibly as failed', async () => {
    const { token } = await registerAt({ platform: 'web', subscription: webSubscription() });
    const { id } = await send(tenant, token);
    await untilOutcome(stack, id, [token], 'failed');
    expect((await tenant.api('GET', `/pushes/${id}`)).status).toBe(200);
  });
});
