import { TOKEN_ROLES } from '@carillon/admin/operator-tokens';
import { boxKeyOf } from '@carillon/core/sealed-box';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { fuzzConsole } from '../../../test/fuzz/fuzz-console.ts';
import { createConsoleRoutes } from '../src/console.ts';
import { type ConsoleRoute, hasRole, ROLES, type Role } from '../src/http/route.ts';
import {
  type Browser,
  type ConsoleResponse,
  type ConsoleUnderTest,
  createBrowser,
  createProgram,
  inviteBrowser,
  setUpOwner,
  startConsole,
} from './console-under-test.ts';

/** What sends requests: a browser with a session, or a program with a token. */
type Caller = Pick<Browser, 'request'>;
type Callers = Record<Role, Caller>;
/** How requests prove of whom they are: the routes that this opens, and those who call them. */
interface Access {
  routes: ConsoleRoute[];
  /** The roles that there are, weakest first. */
  roles: readonly Role[];
  /** Each role with access to all accounts. */
  callers: Callers;
  /** Each role with access to another account, which has an app of its own. */
  foreigners: Callers;
}
/** Of the admin API the tests name the paths of the same routes of the console. */
const WAYS = ['a session', 'a token'] as const;

/** A request to a webhook. */
const REQUEST = 'd'.repeat(24);
/** In the payload of a push, and in the answer of a webhook's receiver. */
const CANARY = 'payload-canary';
const WEBHOOK = { url: 'https://receiver.example/hook', events: ['push.finished'] };

/** Of the random requests: the same each time, unless the environment has another seed. */
const SEED = Number(process.env.CARILLON_FUZZ_SEED ?? 1);
const PER_ROUTE = Number(process.env.CARILLON_FUZZ_PER_ROUTE ?? 50);

/** Values of path parameters by name; a route with another name fails the first test. */
let ids: Record<string, string>;
let started: ConsoleUnderTest;
let routes: ConsoleRoute[];
let access: Record<(typeof WAYS)[number], Access>;
/** App of the foreigners' account. */
let otherApp: string;

beforeAll(async () => {
  started = await startConsole({ TRUST_PROXY: '1' });
  const { store, engine, env } = started;
  routes = createConsoleRoutes(store, engine, env, { url: undefined });
  const owner = await setUpOwner(started);
  const account = (await owner.post('/api/accounts', { name: 'ours' })).body.id;
  const other = (await owner.post('/api/accounts', { name: 'theirs' })).body.id;
  const app = (await owner.post('/api/apps', { account, name: 'app' })).body.id;
  const { token } = await store.devices.register(app, 'android');
  await store.subscriptions.subscribe(app, { token, platform: 'android' }, ['news']);
  const sent = await owner.post(`/api/apps/${app}/pushes`, { to: token, data: { title: CANARY } });
  const redrive = await owner.post(`/api/apps/${app}/redrives`, { filter: {} });
  await store.webhooks.putBoxKey(boxKeyOf(env.CREDENTIAL_KEYS));
  const webhook = await owner.post(`/api/apps/${app}/webhooks`, WEBHOOK);
  // Of the objects with such an id the webhook exists, so that a route which forgets a check changes it.
  ids = { account, app, id: webhook.body.id, channel: 'web-push' };
  ids = { ...ids, token, push: sent.body.id, topic: 'news', redrive: redrive.body.id };
  ids = { ...ids, queueName: 'send', jobId: `send-${sent.body.id}-0` };
  ids = { ...ids, queueStatus: 'failed', schedulerId: 'reconcile' };
  ids = { ...ids, request: REQUEST };
  await store.webhookRequests.record(webhook.body.id, [
    {
      ...{ _id: REQUEST, webhook: webhook.body.id, at: new Date(), status: 200, milliseconds: 1 },
      ...{ bytes: 2, events: [`${webhook.body.id}.test.1`], types: [], answer: CANARY },
    },
  ]);
  otherApp = (await owner.post('/api/apps', { account: other, name: 'app' })).body.id;
  access = {
    'a session': {
      ...{ routes, roles: ROLES },
      callers: await inviteAll(owner, 'all'),
      foreigners: await inviteAll(owner, [other]),
    },
    'a token': {
      ...{ routes: routes.filter(({ isPublic }) => isPublic), roles: TOKEN_ROLES },
      callers: await createTokens(owner, 'all'),
      foreigners: await createTokens(owner, [other]),
    },
  };
});
afterAll(() => started.stop());

async function inviteAll(owner: Browser, accounts: 'all' | string[]): Promise<Callers> {
  const invited: [Role, Caller][] = [];
  for (const role of ROLES) {
    const name = `${role} of ${accounts}`;
    invited.push([role, await inviteBrowser(owner, started.url, { name, role, accounts })]);
  }
  return Object.fromEntries(invited) as Callers;
}

/** There is none of an owner, whose rights beyond those of an admin no public route needs. */
async function createTokens(owner: Browser, accounts: 'all' | string[]): Promise<Callers> {
  const created = TOKEN_ROLES.map(async (role): Promise<[Role, Caller]> => {
    const { body } = await owner.post('/api/operators/tokens', { name: role, role, accounts });
    return [role, createProgram(started.url, body.token)];
  });
  return Object.fromEntries(await Promise.all(created)) as Callers;
}

/** A POST may read, with an input that is too long for a query. */
function isReading({ method, onlyReads }: ConsoleRoute): boolean {
  return method === 'get' || onlyReads === true;
}

function pathOf({ path }: ConsoleRoute, of = ids): string {
  return `/api${path.replace(/:(\w+)/g, (_, name: string) => of[name] ?? `missing-${name}`)}`;
}

function call(caller: Caller, route: ConsoleRoute, of = ids) {
  const hasBody = ['post', 'put', 'patch'].includes(route.method);
  // Valid for all routes, so that no check is hidden by an invalid input.
  const named = { account: of.account, name: 'n', device: of.token, recipients: [of.token] };
  const range = { from: 1, to: 2, filter: {} };
  const body = { ...named, ...WEBHOOK, ...range, role: 'viewer', accounts: [] };
  // The search needs a text; other routes ignore it.
  const path = `${pathOf(route, of)}${route.method === 'get' ? `?q=${ids.app}` : ''}`;
  return caller.request(route.method.toUpperCase(), path, hasBody ? body : undefined);
}

/** All documents that an operator of another account could change. */
async function readAll() {
  const names = [
    ...['accounts', 'apps', 'keys', 'credentials', 'operators', 'invites'],
    ...['operatorTokens', 'webhook_requests'],
    ...['pushes', 'devices', 'subscriptions', 'redrives', 'webhooks'],
  ];
  const collections = names.map((name) => started.db.collection(name));
  // The last use of a token is recorded.
  const options = { projection: { lastUsedAt: 0 } };
  return Promise.all(collections.map((each) => each.find({}, options).sort({ _id: 1 }).toArray()));
}

describe('every route', () => {
  test('that changes something has an action for the audit log, and is not for viewers', () => {
    expect(routes.length).toBeGreaterThan(10);
    const changing = routes.filter((route) => !isReading(route));
    expect(changing.filter(({ audit, role }) => !audit || role === 'viewer')).toEqual([]);
    expect(routes.map((route) => pathOf(route)).filter((path) => path.includes('missing'))).toEqual(
      [],
    );
  });

  test.each(WAYS)(
    'of the answers of receivers shows them to operators only, by %s',
    async (way) => {
      const path = `/api/apps/${ids.app}/webhooks/${ids.id}/requests`;
      for (const role of access[way].roles) {
        const { body } = await access[way].callers[role].request('GET', path);
        expect(body.items).toMatchObject([{ id: REQUEST, status: 200, milliseconds: 1 }]);
        expect([role, body.items[0].answer]).toEqual([
          role,
          role === 'viewer' ? undefined : CANARY,
        ]);
      }
    },
  );

  test('of the audit log only reads it', () => {
    const ofAudit = routes.filter(({ path }) => path.startsWith('/audit'));
    expect(ofAudit.map(({ method }) => method)).toEqual(['get']);
  });

  test('needs a session; the public ones accept no session under /api/v1, and the others are not there', async () => {
    const anonymous = createBrowser(started.url);
    const { callers } = access['a session'];
    for (const route of routes) {
      const { status, body } = await call(anonymous, route);
      expect([route.path, status, body.code]).toEqual([route.path, 401, 'UNAUTHENTICATED']);
      const path = pathOf(route).replace('/api', '/api/v1');
      const inV1 = await callers.owner.request(route.method.toUpperCase(), path);
      expect([path, inV1.status]).toEqual([path, route.isPublic ? 401 : 404]);
    }
  });

  test('accepts no token outside of /api/v1', async () => {
    for (const route of routes) {
      const { token } = access['a token'].callers.admin as ReturnType<typeof createProgram>;
      const authorization = `Bearer ${token}`;
      const method = route.method.toUpperCase();
      const response = await fetch(`${started.url}${pathOf(route)}`, {
        ...{ method, headers: { authorization } },
      });
      expect([route.path, response.status]).toEqual([route.path, 401]);
    }
  });

  test('that is public is of no operator, session, link or token, and needs no owner', () => {
    const ofTokens = access['a token'].routes;
    expect(ofTokens.length).toBeGreaterThan(30);
    const wrong = ofTokens.filter(
      ({ path, role }) => role === 'owner' || /^\/(operators|audit|find|events|bull)/.test(path),
    );
    expect(wrong).toEqual([]);
  });
});

describe.each(WAYS)('with %s, every route', (way) => {
  test('refuses each role below its own, and changes nothing', async () => {
    const { routes, roles, callers } = access[way];
    const before = await readAll();
    for (const route of routes) {
      for (const role of roles.filter((lower) => !hasRole(lower, route.role))) {
        const { status } = await call(callers[role], route);
        expect([role, route.method, route.path, status]).toEqual([
          ...[role, route.method, route.path, 403],
        ]);
      }
    }
    expect(await readAll()).toEqual(before);
  });

  test('that reads accepts its own role, and changes nothing', async () => {
    const { routes, callers } = access[way];
    const before = await readAll();
    for (const route of routes.filter(isReading)) {
      const { status, body } = await call(callers[route.role], route);
      expect([route.path, status]).toEqual([route.path, 200]);
      // Payloads are hidden from viewers, and secrets from all.
      const showsPayload = JSON.stringify(body).includes(CANARY);
      expect([route.path, showsPayload]).toEqual([route.path, route.path.endsWith('/payload')]);
      if (showsPayload) expect(hasRole('viewer', route.role)).toBe(false);
    }
    expect(await readAll()).toEqual(before);
  });

  test('shows and changes nothing of another account', async () => {
    const { routes, roles, foreigners } = access[way];
    const before = await readAll();
    for (const route of routes) {
      const { status, body } = await call(foreigners[roles.at(-1) ?? 'viewer'], route);
      if (route.account === 'any' && route.method === 'get') {
        expect([route.path, status]).toEqual([route.path, 200]);
        expect(JSON.stringify(body)).not.toMatch(new RegExp(`${ids.app}|${ids.account}`));
      } else {
        const expected = route.account === 'installation' ? 403 : 404;
        expect([route.method, route.path, status]).toEqual([route.method, route.path, expected]);
      }
    }
    expect(await readAll()).toEqual(before);
  });

  test('of an account responds to an id that does not exist as to one of another account', async () => {
    const { routes, roles, callers, foreigners } = access[way];
    const strongest = roles.at(-1) ?? 'viewer';
    const unknown = unknownIds();
    for (const route of routes.filter(({ account }) => typeof account === 'function')) {
      const { status } = await call(callers[strongest], route, unknown);
      expect([route.method, route.path, status]).toEqual([route.method, route.path, 404]);
    }
    for (const route of routes) {
      const of = [ids, unknown];
      if (/:id|test$/.test(route.path) && route.path.startsWith('/apps/'))
        of.push({ ...ids, app: otherApp }, { ...unknown, app: otherApp });
      const responses = of.map(async (some) =>
        withoutRequest(await call(foreigners[strongest], route, some)),
      );
      const [existing, missing, ownAndExisting, ownAndMissing] = await Promise.all(responses);
      const name = `${route.method} ${route.path}`;
      expect([name, existing]).toEqual([name, missing]);
      expect([name, ownAndExisting]).toEqual([name, ownAndMissing]);
    }
    for (const account of [ids.account, unknown.account]) {
      const { status } = await foreigners.viewer.request('GET', `/api/apps?account=${account}`);
      expect(status).toBe(404);
    }
  });
});

/** Ids of nothing; the channel exists for all apps. */
function unknownIds(): Record<string, string> {
  const names = Object.keys(ids);
  const unknown = names.map((name) => [name, name === 'token' ? 'no' : '0'.repeat(24)]);
  return { ...ids, ...Object.fromEntries(unknown), channel: ids.channel ?? '' };
}

/** All of a response but the id of its request and its time. */
function withoutRequest({ status, body, headers }: ConsoleResponse) {
  const { requestId, ...rest } = body;
  const { 'x-request-id': _, date, ...others } = Object.fromEntries(headers);
  return { status, body: JSON.stringify(rest), headers: others };
}

describe('every route', () => {
  test(`responds to random requests without a session with JSON and no 5xx, and changes nothing (seed ${SEED})`, async () => {
    const before = await readAll();
    const random = { perRoute: PER_ROUTE, seed: SEED };
    const { statuses, violations } = await fuzzConsole(started.url, random);
    expect(violations).toEqual([]);
    // Requests of each kind were among them, so that there was something to check.
    const kinds = ['200', '400', '401', '404', '413'];
    expect(Object.keys(statuses)).toEqual(expect.arrayContaining(kinds));
    expect(await readAll()).toEqual(before);
  }, 900_000);

  test('refuses a session after 12 idle hours', async () => {
    const seenAt = new Date(Date.now() - 12 * 3_600_000 - 1);
    await started.db.collection('sessions').updateMany({}, { $set: { seenAt } });
    for (const route of routes) {
      expect([route.path, (await call(access['a session'].callers.owner, route)).status]).toEqual([
        route.path,
        401,
      ]);
    }
  });
});
