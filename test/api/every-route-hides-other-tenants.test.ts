import { beforeAll, expect, test } from '@jest/globals';
import { OPERATIONS } from '../../services/api/src/reference/document.ts';
import {
  type Endpoint,
  type EndpointList,
  listFields,
  readEndpoints,
} from '../support/api/endpoints.ts';
import {
  createResources,
  createWebhook,
  readEverything,
  type TenantResources,
} from '../support/api/tenant-resources.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { registerDevice } from '../support/register-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

/** Kind of object that a parameter or a field of a request names. Objects of an app are hidden from other apps. */
type Kind = 'device' | 'auth' | 'push' | 'webhook' | 'topic' | 'cursor' | 'nothing';

/** `appId` is in every installed app: a client that knows it may register devices. */
const NOTHING = `
  appId app platform sdk deviceId fcmToken pushToken pushEnvironment pushBundle pushKind expires_in subscription url events
  from state outcome format data time_to_live content_available mutable_content notification
  schedule active_within collapse_key priority apns fcm web_push Idempotency-Key`
  .trim()
  .split(/\s+/);

/**
 * Every name of a parameter or a field in the OpenAPI document. A new one must be added here: as what it names, so that
 * the test below requests another tenant's, or as not part of an app.
 */
const KINDS: Record<string, Kind> = {
  ...Object.fromEntries(NOTHING.map((name) => [name, 'nothing' as const])),
  push_id: 'push',
  push: 'push',
  device_token: 'device',
  token: 'device',
  tokens: 'device',
  registration_ids: 'device',
  // The start of a range of times has the same name as the recipients of a push.
  to: 'device',
  webhook_id: 'webhook',
  topic: 'topic',
  topics: 'topic',
  auth: 'auth',
  after: 'cursor',
  page: 'cursor',
};

type Ids = Record<Exclude<Kind, 'nothing'>, string>;

/** As long as the others', and of the same letters. */
const ABSENT: Ids = {
  ...{ device: 'f'.repeat(22), auth: 'f'.repeat(64), push: 'f'.repeat(24) },
  ...{ webhook: 'f'.repeat(24), topic: 'absent', cursor: 'f'.repeat(24) },
};

/** The specification (4.4, 7) has a code of its own for a device of another app. */
const OWN_ERRORS: Record<string, string> = {
  ...{ getDevice: 'APP_MISMATCH', listDevicePushes: 'APP_MISMATCH' },
};

let stack: SharedStack;
let list: EndpointList;
let victim: TenantResources;
let foreign: Ids[];
let other: TestTenant;
let ownToken: string;
let before: Record<string, string>;
beforeAll(async () => {
  stack = await useSharedStack();
  list = await readEndpoints(stack.dev.api);
  victim = await createResources(stack);
  const { device, push, scheduled, webhook, topic } = victim;
  const cursors = [push, device.token, `${topic}:${device.token}`];
  foreign = [push, scheduled].flatMap((id) =>
    cursors.map((cursor) => ({
      ...{ device: device.token, auth: ABSENT.auth, push: id },
      ...{ webhook, topic, cursor },
    })),
  );
  other = await createTestTenant(stack, { limit: null });
  ({ token: ownToken } = await registerDevice(other.dev));
  await createWebhook(other, 'own');
  before = await readEverything(stack, victim);
});

test('every parameter and field of the OpenAPI document is classified', () => {
  const names = list.endpoints.flatMap(({ parameters, body }) => [
    ...parameters.map(({ name }) => name),
    ...(body === undefined ? [] : listFields(list, body.schema).keys()),
  ]);
  expect([...new Set(names)].filter((name) => !(name in KINDS))).toEqual([]);
  expect(Object.keys(KINDS).filter((name) => !names.includes(name))).toEqual([]);
});

/** Replaces the example of a field or a parameter by an id, or by a list of it. */
function fill(name: string, example: unknown, ids: Ids): unknown {
  const kind = KINDS[name] ?? 'nothing';
  if (kind === 'nothing' || typeof example === 'number') return example;
  return Array.isArray(example) ? [ids[kind]] : ids[kind];
}

/** Writes the endpoint's example with these ids, and with or without a cursor into a list. */
function buildRequest(endpoint: Endpoint, ids: Ids, hasCursor: boolean) {
  const { method, parameters, body } = endpoint;
  const query = new URLSearchParams();
  let path = endpoint.path;
  for (const { name, in: location, required, example } of parameters) {
    const value = String(fill(name, example, ids));
    if (location === 'path') path = path.replace(`{${name}}`, encodeURIComponent(value));
    // Without the others a list is whole.
    else if (location === 'query' && (required || (hasCursor && KINDS[name] === 'cursor')))
      query.set(name, value);
  }
  const fields = Object.entries(body?.example ?? {}).map(([name, value]) => [
    name,
    fill(name, value, ids),
  ]);
  const cursors = [...(body === undefined ? [] : listFields(list, body.schema).keys())]
    .filter((name) => hasCursor && KINDS[name] === 'cursor')
    .map((name) => [name, ids.cursor]);
  return {
    method,
    target: query.size > 0 ? `${path}?${query}` : path,
    body: body && Object.fromEntries([...fields, ...cursors]),
  };
}

/** Calls as the other tenant. Exports are text of several lines, so nothing is parsed. */
async function call({ method, target, body }: ReturnType<typeof buildRequest>, hasKey = true) {
  const { api, apiKey } = other.dev;
  const response = await fetch(new URL(target, api), {
    method,
    headers: {
      'content-type': 'application/json',
      ...(hasKey && { authorization: `Bearer ${apiKey}` }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: response.status, text: await response.text() };
}

/** Texts by which the victim would be recognised, unless the request has them itself. */
function findLeaks(text: string, request: object): string[] {
  const { device, push, scheduled, webhook, topic, mark } = victim;
  const requested = decodeURIComponent(JSON.stringify(request));
  return [device.token, device.auth, push, scheduled, webhook, topic, mark, stack.dev.app].filter(
    (secret) => text.includes(secret) && !requested.includes(secret),
  );
}

const endpointOf = (id: string): Endpoint => {
  const found = list.endpoints.find((endpoint) => endpoint.id === id);
  if (found === undefined) throw new Error(`the document has no ${id}`);
  return found;
};

/** Checks that requests of an endpoint name objects of an app. */
function namesObject({ parameters, body }: Endpoint): boolean {
  const names = [
    ...parameters.filter(({ required }) => required).map(({ name }) => name),
    ...Object.keys(body?.example ?? {}),
  ];
  return names.some((name) => !['nothing', 'cursor'].includes(KINDS[name] ?? 'nothing'));
}

test.each(OPERATIONS.map(({ id }) => id))(
  '%s: data of another tenant appears absent',
  async (id) => {
    const endpoint = endpointOf(id);
    for (const ids of namesObject(endpoint) ? foreign : foreign.slice(0, 3)) {
      for (const hasKey of endpoint.needsApiKey ? [true] : [true, false]) {
        const request = buildRequest(endpoint, ids, false);
        const response = await call(request, hasKey);
        expect(response.status).toBeLessThan(500);
        expect(findLeaks(response.text, request)).toEqual([]);
        if (OWN_ERRORS[id] !== undefined) expect(response.text).toContain(OWN_ERRORS[id]);
        else if (namesObject(endpoint)) {
          const absent = await call(buildRequest(endpoint, ABSENT, false), hasKey);
          expect(toComparable(response, ids)).toEqual(toComparable(absent, ABSENT));
        }
      }
      // A cursor is no object of an app: what follows it differs with it.
      const behind = buildRequest(endpoint, ids, true);
      expect(findLeaks((await call(behind)).text, behind)).toEqual([]);
    }
  },
);

/** A response without what is new in each: ids and secrets that it has made, and the requested ids. */
function toComparable({ status, text }: { status: number; text: string }, ids: Ids) {
  const requested = Object.values(ids).reduce((rest, id) => rest.replaceAll(id, 'ID'), text);
  const made = requested.replaceAll(/[0-9a-f]{20,}|whsec_[\w+/=-]+/g, 'NEW');
  return { status, text: made.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d{10}\b/g, 'TIME') };
}

test("the other tenant's data is unchanged", async () => {
  expect(await readEverything(stack, victim)).toEqual(before);
  // The calls above worked: the other tenant finds its own objects in the same way.
  const { status, text } = await call(
    buildRequest(endpointOf('getDevice'), { ...ABSENT, device: ownToken }, false),
  );
  expect([status, text]).toEqual([200, expect.stringContaining('"platform":"electron"')]);
});
