import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { postWithoutKey } from '../support/api/keyless-calls.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { codeBlock } from '../support/documents/code-blocks.ts';
import { send } from '../support/end-to-end/pushes.ts';
import type { ProviderFixture } from '../support/providers/fixture.ts';
import { untilFinal } from '../support/providers/outcomes.ts';
import type { Credentials } from '../support/register-device.ts';
import { useSharedProviders } from '../support/shared-stack.ts';

const FLUTTER = codeBlock('docs/use/receive/flutter.md', "Firebase's plugin");
const REACT_NATIVE = codeBlock('docs/use/receive/react-native.md', "Firebase's library");
/** Code that registers an address of a provider, and where a push is in the payload that the provider gets. */
const PAGES = [
  ['Kotlin', 'android', codeBlock('docs/use/receive/android.md', 'FCM'), 'data'],
  ['Swift', 'ios', codeBlock('docs/use/receive/ios.md', 'APNs'), ''],
  ['Dart on Android', 'android', FLUTTER, 'data'],
  ['Dart on iOS', 'ios', FLUTTER, 'apns.payload'],
  ['JavaScript on Android', 'android', REACT_NATIVE, 'data'],
  ['JavaScript on iOS', 'ios', REACT_NATIVE, 'apns.payload'],
] as const;
/** Our names in a push, beside those of `data`. */
const OUR_NAMES = ['payload', '_pushyId'];

let providers: ProviderFixture;
let tenant: TestTenant;
beforeAll(async () => {
  providers = await useSharedProviders();
  tenant = await providers.tenant({ fcm: 30 });
});
afterAll(() => providers?.close());

test.each(PAGES)(
  'the request of the %s code registers a phone that gets a push, and later the same phone',
  async (_name, platform, code, path) => {
    const first = { ...newAddress(), appId: tenant.app, platform };
    const device = await post(code, first);
    const later = { ...first, ...newAddress() };
    expect(await post(code, { ...later, ...device })).toEqual(device);

    const push = await send(tenant, device.token);
    expect(await untilFinal(providers.store, push, device.token)).toEqual({ outcome: 'sent' });
    const [received] = await providers.sandbox.received(push.id);
    expect([later.fcmToken, later.pushToken]).toContain(received?.to);
    const message = path.split('.').reduce(part, received?.payload ?? {});
    expect(message._pushyId).toBe(push.id);
    for (const name of OUR_NAMES.filter((one) => one in message)) expect(code).toContain(name);
  },
);

test('what Pushy’s Android SDK sends registers a phone, whose FCM token the app sends itself', async () => {
  const call = (path: string, body: object) =>
    postWithoutKey<Credentials>(tenant.dev.api, path, body);
  const fields = { androidId: '0123456789abcdef', platform: 'android', sdk: 10_127 };
  const { token, auth } = (await call('/register', { appId: tenant.app, ...fields })).json;
  const { fcmToken } = newAddress();
  const bySdk = await call('/devices/token', { token, auth, pushToken: fcmToken });
  expect(bySdk).toMatchObject({ status: 400, json: { code: 'INVALID_PARAM' } });
  expect((await call('/devices/token', { token, auth, fcmToken })).json).toEqual({ success: true });
  const push = await send(tenant, token);
  expect(await untilFinal(providers.store, push, token)).toEqual({ outcome: 'sent' });
});

const part = (whole: Record<string, unknown>, name: string) =>
  (name === '' ? whole : whole[name]) as Record<string, unknown>;

/** Fields of an address that no other phone has. */
function newAddress() {
  return {
    fcmToken: `fcm-${randomBytes(20).toString('hex')}`,
    pushToken: randomBytes(32).toString('hex'),
    pushEnvironment: 'production',
    pushBundle: 'com.example.carillon',
  };
}

/** Sends the request of a page's code, with those of the values that it names; it leaves out what a phone does not have yet. */
async function post(code: string, values: Record<string, string>): Promise<Credentials> {
  const [, path = ''] = /https:\/\/push\.example\.com(\/\w+)/.exec(code) ?? [];
  const names = listFields(code);
  const unknown = names.filter((name) => !(name in { ...values, token: '', auth: '' }));
  expect(unknown).toEqual([]);
  const body = Object.fromEntries(names.map((name) => [name, values[name]]));
  const { status, json, text } = await postWithoutKey<Credentials>(tenant.dev.api, path, body);
  if (status !== 200) throw new Error(`${path}: ${text}`);
  return json;
}

/** Lists the names in a body, which begins with `appId` and ends with `auth`: `"name" to value`, or `name: value`. */
function listFields(code: string): string[] {
  const [body = ''] = /["']?appId[\s\S]*?\bauth["']?(?: to|:) /.exec(code) ?? [];
  return [...body.matchAll(/(?<![\w(])(\w+)["']?(?: to|:) /g)].flatMap(([, name]) => name ?? []);
}
