import { boxKeyOf } from '@carillon/core/sealed-box';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { fuzzConsole } from '../../../test/fuzz/fuzz-console.ts';
import { createConsoleRoutes } from '../src/console.ts';
import { type ConsoleRoute, hasRole, ROLES, type Role } from '../src/http/route.ts';
import {
  type Browser,
  type ConsoleUnderTest,
  createBrowser,
  inviteBrowser,
  setUpOwner,
  startConsole,
} from './console-under-test.ts';

type Browsers = Record<Role, Browser>;

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
let browsers: Browsers;
/** Each role with access to an account that owns nothing. */
let foreigners: Browsers;

beforeAll(async () => {
  started = await startConsole({ TRUST_PROXY: '1' });
  const { store, engine, env } = started;
  routes = createConsoleRoutes(store, engine, env, { url: undefined });
  const owner = await setUpOwner(started);
  const account = (await owner.post('/api/accounts', { name: 'ours' })).body.id;
  const other = (await owner.post('/api/accounts', { name: 'theirs' })).body.id;
  const app = (await owner.post('/api/apps', { account, name: 'app' })).body.id;
  const { token } = await store.devices.register(app, 'android');
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
  browsers = await inviteAll(owner, 'all');
  foreigners = await inviteAll(owner, [other]);
});
afterAll(() => started.stop());

async function inviteAll(owner: Browser, accounts: 'all' | string[]): Promise<Browsers> {
  const invited: [Role, Browser][] = [];
  for (const role of ROLES) {
    const name = `${role} of ${accounts}`;
    invited.push([role, await inviteBrowser(owner, started.url, { name, role, accounts })]);
  }
  return Object.fromEntries(invited) as Browsers;
}

function pathOf({ path }: ConsoleRoute, of = ids): string {
  return `/api${path.replace(/:(\w+)/g, (_, name: string) => of[name] ?? `missing-${name}`)}`;
}

function call(browser: Browser, route: ConsoleRoute, of = ids) {
  const hasBody = ['post', 'put', 'patch'].includes(route.method);
  // Valid for all routes, so that no check is hidden by an invalid input.
  const named = { account: of.account, name: 'n', device: of.token };
  const body = { ...named, ...WEBHOOK, from: 1, to: 2, role: 'viewer', accounts: [], filter: {} };
  // The search needs a text; other routes ignore it.
  const path = `${pathOf(route, of)}${route.method === 'get' ? `?q=${ids.app}` : ''}`;
  return browser.request(route.method.toUpperCase(), path, hasBody ? body : undefined);
}

/** All documents that an operator of another account could change. */
async function readAll() {
  const names = [
    ...['accounts', 'apps', 'keys', 'credentials', 'operators', 'invites'],
    ...['pushes', 'devices', 'subscriptions', 'redrives', 'webhooks', 'webhook_requests'],
  ];
  const collections = names.map((name) => started.db.collection(name));
  return Promise.all(collections.map((each) => each.find().sort({ _id: 1 }).toArray()));
}

describe('every route', () => {
  test('that changes something has an action for the audit log, and is not for viewers', () => {
    expect(routes.length).toBeGreaterThan(10);
    const changing = routes.filter(({ method }) => method !== 'get');
    expect(changing.filter(({ audit, role }) => !audit || role === 'viewer')).toEqual([]);
    expect(routes.map((route) => pathOf(route)).filter((path) => path.includes('missing'))).toEqual(
      [],
    );
  });

  test('of the answers of receivers shows them to operators', async () => {
    const path = `/api/apps/${ids.app}/webhooks/${ids.id}/requests`;
    for (const role of ROLES) {
      const { body } = await browsers[role].get(path);
      expect(body.items).toMatchObject([{ id: REQUEST, status: 200, milliseconds: 1 }]);
      expect([role, body.items[0].answer]).toEqual([role, role === 'viewer' ? undefined : CANARY]);
    }
  });

  test('of the audit log only reads it', () => {
    const ofAudit = routes.filter(({ path }) => path.startsWith('/audit'));
    expect(ofAudit.map(({ method }) => method)).toEqual(['get']);
  });

  test('needs a session', async () => {
    const anonymous = createBrowser(started.url);
    for (const route of routes) {
      const { status, body } = await call(anonymous, route);
      expect([route.path, status, body.code]).toEqual([route.path, 401, 'UNAUTHENTICATED']);
    }
  });

  test('refuses each role below its own, and changes nothing', async () => {
    const before = await readAll();
    for (const route of routes) {
      for (const role of ROLES.filter((lower) => !hasRole(lower, route.role))) {
        const { status } = await call(browsers[role], route);
        expect([role, route.method, route.path, status]).toEqual([
          ...[role, route.method, route.path, 403],
        ]);
      }
    }
    expect(await readAll()).toEqual(before);
  });

  test('that reads accepts its own role', async () => {
    for (const route of routes.filter(({ method }) => method === 'get')) {
      const { status, body } = await call(browsers[route.role], route);
      expect([route.path, status]).toEqual([route.path, 200]);
      // Payloads are hidden from viewers, and secrets from all.
      const showsPayload = JSON.stringify(body).includes(CANARY);
      expect([route.path, showsPayload]).toEqual([route.path, route.path.endsWith('/payload')]);
      if (showsPayload) expect(hasRole('viewer', route.role)).toBe(false);
    }
  });

  test('shows and changes nothing of another account', async () => {
    const before = await readAll();
    for (const route of routes) {
      const { status, body } = await call(foreigners.owner, route);
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
    const unknown = Object.keys(ids).map((name) => [
      name,
      name === 'token' ? 'no' : '0'.repeat(24),
    ]);
    const of = { ...ids, ...Object.fromEntries(unknown), channel: ids.channel ?? '' };
    const ofAccounts = routes.filter(({ account }) => typeof account === 'function');
    for (const route of ofAccounts) {
      const { status } = await call(browsers.owner, route, of);
      expect([route.method, route.path, status]).toEqual([route.method, route.path, 404]);
    }
  });

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
      expect([route.path, (await call(browsers.owner, route)).status]).toEqual([route.path, 401]);
    }
  });
});
