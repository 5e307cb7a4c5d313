import { isDeepStrictEqual } from 'node:util';
import { OUTCOMES } from '@carillon/core/outcomes';
import { countAccepted, countRecipients, processCounts } from '@carillon/core/process-counts';
import { startFigures } from '@carillon/presence/figures-writer';
import { MAX_OPEN_CIRCUITS, writeOpenCircuits } from '@carillon/presence/open-circuits';
import { connectRedis, type Redis } from '@carillon/presence/redis';
import { createLatencyHistogram, LATENCY_BOUNDS_MS } from '@carillon/runtime/latency-histogram';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startRedis, startServer } from '../../../packages/presence/test/start-server.ts';
import {
  acknowledge,
  deliver,
  insertPush,
  newTokens,
  SHAPES,
  type StoreUnderTest,
  startStore,
} from '../../../packages/store/test/store-under-test.ts';
import { until } from '../../../test/support/until.ts';
import { type ConsoleRoute, EventStream, type SessionOperator } from '../src/http/route.ts';
import { createLiveFigures } from '../src/live/live-figures.ts';
import { estimateQuantile, type Overview, type OverviewMinute } from '../src/live/overview.ts';
import { createPushWatch } from '../src/live/push-watch.ts';
import { liveRoutes, MAX_STREAMS } from '../src/live/routes.ts';

const APP = 'a'.repeat(24);
const VIEWER: SessionOperator = { id: 'o1', name: 'ada', role: 'viewer', accounts: 'all' };

let redisServer: Awaited<ReturnType<typeof startRedis>>;
let restarted: { stop(): Promise<void> } | undefined;
let database: StoreUnderTest;
let redis: Redis;
/** The connection of the test, besides the one of the routes. */
let own: Redis;
let routes: ConsoleRoute[];
const open = new Set<AbortController>();

beforeAll(async () => {
  [redisServer, database] = await Promise.all([startRedis(), startStore()]);
  [redis, own] = [await connectRedis(redisServer), await connectRedis(redisServer)];
  routes = startRoutes();
  // The app of the store's test pushes.
  const app = { _id: APP, name: 'app', account: 'account-1', createdAt: new Date() };
  await database.db.collection<{ _id: string }>('apps').insertOne(app);
});
afterAll(async () => {
  for (const closing of open) closing.abort();
  for (const connection of [redis, own]) connection?.disconnect();
  await Promise.all([redisServer?.stop(), restarted?.stop(), database?.stop()]);
});

/** Creates the routes of a console that has read nothing yet. */
function startRoutes(): ConsoleRoute[] {
  const figures = createLiveFigures(redis, database.store);
  return liveRoutes({ redis, figures, store: database.store, intervalMs: 50 });
}

/** Calls a route as the router does. */
async function get(path: string, query: object = {}, operator = VIEWER): Promise<unknown> {
  const route = routes.find((one) => one.path === path);
  if (route === undefined) throw new Error(`there is no route ${path}`);
  const input = route.input.parse(query);
  return route.handle({ input, bodyText: '', operator, requestId: 'r' });
}

/** Opens the event stream of a viewer. */
async function view(query: object = {}, operator = VIEWER) {
  const stream = await get('/events', query, operator);
  if (!(stream instanceof EventStream)) throw new Error('GET /events returned no event stream');
  const closing = new AbortController();
  open.add(closing);
  const events: { event: string; data: unknown }[] = [];
  stream.open((event, data) => events.push({ event, data }), closing.signal);
  return {
    events,
    /** Waits for a further event of a kind, and returns its data. */
    async next(event: string): Promise<unknown> {
      const known = events.length;
      return (await until(() => events.slice(known).find((one) => one.event === event))).data;
    },
    leave: () => closing.abort(),
  };
}

/** Creates an app with a credential that its provider refuses. */
async function createRefusedApp(name: string): Promise<{ account: string; app: string }> {
  const { accounts, apps, credentials } = database.store;
  const account = await accounts.create(`account of ${name}`, 'pro');
  const app = await apps.create(name, account);
  const sealed = { key: 1, nonce: '', text: '', tag: '' };
  const saved = await credentials.put({ app, channel: 'apns' }, sealed, {});
  await credentials.recordRefusal(saved._id, saved.revision, 'InvalidProviderToken', -1_000);
  return { account, app };
}

/** Counts the commands that Redis has run, by name. */
async function countCommands(): Promise<Record<string, number>> {
  const calls = (await own.info('commandstats')).matchAll(/cmdstat_(\S+):calls=(\d+)/g);
  return Object.fromEntries([...calls].map(([, name, n]) => [name ?? '', Number(n)]));
}

test.each(SHAPES)(
  'a watched push is announced at its start, its settlement and a late receipt: %s',
  async (shape) => {
    const [connected = '', offline = ''] = newTokens(2);
    const push = await insertPush(database, [connected, offline], { shape });
    const viewer = await view({ push: push.id });
    expect(await viewer.next('push')).toEqual({ id: push.id });
    const settled = viewer.next('push');
    await deliver(database.store, push, { [offline]: OUTCOMES.inbox });
    expect(await settled).toEqual({ id: push.id });
    await viewer.next('overview');
    const received = viewer.next('push');
    await acknowledge(database, push, offline);
    expect(await received).toEqual({ id: push.id });
    viewer.leave();
  },
);

test('a push of another account is not watched, like one that does not exist', async () => {
  const push = await insertPush(database, newTokens(1));
  const mine = { ...VIEWER, id: 'mine', accounts: ['account-1'] };
  const foreign = { ...VIEWER, id: 'foreign', accounts: ['account-2'] };
  const [owner, other] = await Promise.all([
    view({ push: [push.id, 'f'.repeat(24)] }, mine),
    view({ push: push.id }, foreign),
  ]);
  expect(await owner.next('push')).toEqual({ id: push.id });
  const changed = owner.next('push');
  await deliver(database.store, push, {});
  expect(await changed).toEqual({ id: push.id });
  await other.next('overview');
  expect(other.events.filter(({ event }) => event === 'push')).toEqual([]);
  owner.leave();
  other.leave();
});

test('all pushes of a page are watched', async () => {
  const pushes = await Promise.all(
    Array.from({ length: 50 }, () => insertPush(database, newTokens(1))),
  );
  const viewer = await view({ push: pushes.map(({ id }) => id) });
  const isAnnounced = ({ id }: { id: string }, times: number) =>
    viewer.events.filter(({ data }) => JSON.stringify(data) === JSON.stringify({ id })).length >=
    times;
  await until(() => pushes.every((push) => isAnnounced(push, 1)), {
    what: 'each push is announced once',
  });
  const [last] = pushes.slice(-1);
  if (last === undefined) throw new Error('there is no push');
  await deliver(database.store, last, {});
  await until(() => isAnnounced(last, 2), { what: 'the change of the last push is announced' });
  viewer.leave();
});

test('of more than 200 pushes, each is read in turn', async () => {
  const pushes = await Promise.all(
    Array.from({ length: 210 }, () => insertPush(database, newTokens(1))),
  );
  const ids = pushes.map(({ id }) => id);
  const sizes: number[] = [];
  const readMarks = (some: readonly string[]) => {
    sizes.push(some.length);
    return database.store.pushProgress.readMarks(some);
  };
  const watch = createPushWatch({ readMarks }, { intervalMs: 1, rareIntervalMs: 1 });
  const changed: string[] = [];
  const leave = watch.watch(ids, (id) => changed.push(id));
  await until(() => changed.length === ids.length, { what: 'each push is announced once' });
  leave();
  expect(Math.max(...sizes)).toBe(200);
  expect(changed.toSorted()).toEqual(ids.toSorted());
});

test('at most a hundred pushes can be watched, and only by id', async () => {
  const ids = Array.from({ length: 101 }, (_, n) => `${n}`.padStart(24, '0'));
  await expect(view({ push: ids })).rejects.toThrow('at most 100 push ids');
  await expect(view({ push: 'x' })).rejects.toThrow('at most 100 push ids');
});

const getOverview = (operator?: SessionOperator) =>
  get('/overview', {}, operator) as Promise<Overview>;

/** Operations of all collections in the database's profile, so far. */
const countQueries = () =>
  database.db.collection('system.profile').countDocuments({ ns: { $not: /system\./ } });

/** Reads the overview of a console that has read nothing yet. */
async function readAtFirstSight(): Promise<Overview> {
  routes = startRoutes();
  return (await get('/overview')) as Overview;
}

test('pending batches are there at first sight, without a scheduler', async () => {
  // Those of the tests before.
  const [{ pending: others } = { pending: 0 }] = (await readAtFirstSight()).apps;
  await insertPush(database, newTokens(1), { shape: 'in the push' });
  const { channels, apps } = await readAtFirstSight();
  expect(apps).toMatchObject([{ id: APP, pending: Number(others) + 1 }]);
  const pending = Object.fromEntries(channels.map((one) => [one.channel, one.pending]));
  expect(pending).toMatchObject({ apns: 0, fcm: 0, 'web-push': 0 });
  expect(pending.mqtt).toBeGreaterThan(0);
});

/** Returns what a read costs while there are some viewers: commands of Redis by name, and operations of MongoDB. */
async function measureReads(viewers: readonly Awaited<ReturnType<typeof view>>[]) {
  await Promise.all(viewers.map((viewer) => viewer.next('overview')));
  const [before, queriesBefore] = [await countCommands(), await countQueries()];
  const known = viewers.map(({ events }) => events.length);
  for (let n = 0; n < 4; n += 1)
    await Promise.all(viewers.map((viewer) => viewer.next('overview')));
  const [after, queriesAfter] = [await countCommands(), await countQueries()];
  const reads = Math.max(...viewers.map(({ events }, n) => events.length - (known[n] ?? 0)));
  const { info, ping, ...commands } = after;
  const perRead = Object.entries(commands).map(
    ([name, calls]) => [name, (calls - (before[name] ?? 0)) / reads] as const,
  );
  return { commands: new Map(perRead), queries: (queriesAfter - queriesBefore) / reads };
}

/** Factor of two costs of a read that are the same: it may be one in the beginning or at the end. */
const SAME = 3;

test('twenty viewers cost as many commands as one, and no viewer costs none', async () => {
  await database.db.command({ profile: 2 });
  const viewers = [await view({}, { ...VIEWER, id: 'first' })];
  const one = await measureReads(viewers);
  expect([...one.commands].filter(([, calls]) => calls > 0).length).toBeGreaterThan(5);
  expect(one.queries).toBeGreaterThan(0);
  for (let n = 1; n < 20; n += 1) viewers.push(await view({}, { ...VIEWER, id: `viewer ${n}` }));
  const twenty = await measureReads(viewers);
  for (const [name, calls] of twenty.commands)
    expect([name, calls > SAME * Math.max(1, one.commands.get(name) ?? 0)]).toEqual([name, false]);
  expect(twenty.queries).toBeLessThanOrEqual(SAME * one.queries);
  for (const viewer of viewers) viewer.leave();
  const countAll = async () => {
    // The test's own commands, and those by which clients verify that a quiet connection is alive.
    const { info, blpop, ping, ...commands } = await countCommands();
    return { commands, queries: await countQueries() };
  };
  // A read in progress is shared by one that finds its figures too old, or has ended before.
  await own.blpop('never', 0.15);
  await getOverview();
  // What it may have left behind ends; from then on the counts stay while other commands pass a dozen times the interval.
  const settled = await until(
    async () => {
      const before = await countAll();
      await own.blpop('never', 0.15);
      return isDeepStrictEqual(await countAll(), before) && before;
    },
    { what: 'the end of all reads' },
  );
  for (let i = 0; i < 4; i += 1) await own.blpop('never', 0.15);
  expect(await countAll()).toEqual(settled);
  await database.db.command({ profile: 0 });
});

test('counts of a process are in the overview, and a viewer of some accounts gets those of their apps', async () => {
  const figures = startFigures(redisServer, {
    log: { warn: () => undefined },
    intervalMs: 20,
    readBuckets: () => [{ boundMs: 50, count: 4 }],
  });
  processCounts.pushesAccepted += 3;
  figures.reportOnline('gateway-1', () => 9);
  const viewer = await view({ minutes: 2 });
  const overview = await until(async () => {
    const read = (await viewer.next('overview')) as Overview;
    return read.gateways.length === 1 ? read : undefined;
  });
  expect(overview.gateways).toEqual([{ id: 'gateway-1', online: 9 }]);
  expect(overview.minutes.reduce((sum, { accepted }) => sum + accepted, 0)).toBe(3);
  expect(overview.since).toBeLessThanOrEqual(overview.readAt);
  expect(overview.latency.p99Ms).toBeGreaterThanOrEqual(20);
  expect(overview.latency.p99Ms).toBeLessThanOrEqual(50);
  viewer.leave();

  const [mine, others] = await Promise.all(
    ['mine', 'theirs'].map((name) => createRefusedApp(name)),
  );
  await until(async () => (await getOverview()).refusedCredentials.length === 2);
  const ofMine = { ...VIEWER, accounts: [mine?.account ?? ''] };
  expect(await getOverview(ofMine)).toMatchObject({ apps: [], gateways: [], channels: [] });
  const refusal = { channel: 'apns', message: 'InvalidProviderToken', appName: 'mine' };
  expect((await getOverview(ofMine)).refusedCredentials).toEqual([
    { ...refusal, app: mine?.app, refusedAt: expect.any(Number) },
  ]);
  const app = mine?.app ?? '';
  countAccepted(others?.app ?? '');
  countAccepted(others?.app ?? '');
  countAccepted(app);
  countRecipients(app, 'mqtt', { delivered: 4, failed: 1 });
  countRecipients(app, 'fcm', { sent: 3 });
  await database.store.apps.pause(app);
  const restricted = await until(async () => {
    const read = await getOverview(ofMine);
    return read.apps[0]?.paused === true ? read : undefined;
  });
  const counts = { accepted: 1, delivered: 7, failed: 1 };
  const idle = { pending: 0, isAtLeast: false, oldestMs: 0 };
  const shown = { id: app, name: 'mine', paused: true, ...counts, ...idle };
  expect(restricted.apps).toEqual([shown]);
  expect(restricted).toMatchObject({ scope: 'accounts', gateways: [], channels: [] });
  const sumOf = (read: (minute: OverviewMinute) => number | undefined) =>
    restricted.minutes.reduce((sum, minute) => sum + (read(minute) ?? 0), 0);
  expect(sumOf(({ accepted }) => accepted)).toBe(1);
  expect(sumOf(({ delivered }) => delivered)).toBe(4);
  expect(sumOf(({ sent }) => sent)).toBe(3);
  expect(sumOf(({ failed }) => failed.failed)).toBe(1);
  // Without pending work the app with the most pushes comes first.
  const whole = await getOverview();
  const idleApps = whole.apps.filter(({ pending }) => pending === 0);
  expect(idleApps.slice(0, 2).map(({ name, accepted }) => [name, accepted])).toEqual([
    ['theirs', 2],
    ['mine', 1],
  ]);
  await figures.stop();
  expect(JSON.stringify(restricted)).not.toContain(others?.app);
});

test('a viewer of some accounts gets the problems of their apps, and no figures of others', async () => {
  const mine = await createRefusedApp('delayed');
  const ofMine = { ...VIEWER, accounts: [mine.account] };
  const ofOwnApp = {
    kind: 'refused-credential',
    app: { id: mine.app },
    since: expect.any(Number),
  };
  await until(async () => (await getOverview(ofMine)).problems.length === 1);
  expect((await getOverview(ofMine)).problems).toMatchObject([ofOwnApp]);
  await own.lpush('bull:send:wait', 'job');
  await own.hset('bull:send:job', { timestamp: Date.now() - 90_000 });
  const { problems } = await until(async () => {
    const read = await getOverview();
    return read.problems[0]?.kind === 'no-worker' ? read : undefined;
  });
  expect(problems[0]).toMatchObject({ kind: 'no-worker', queues: ['send'] });
  expect((problems[0]?.since ?? 0) - Date.now()).toBeLessThanOrEqual(-90_000);
  const { problems: ofAccount } = await getOverview(ofMine);
  // A sentence without figures of others.
  expect(ofAccount).toMatchObject([{ kind: 'installation', since: null }, ofOwnApp]);
  expect(JSON.stringify(ofAccount)).not.toContain('send');
  await own.del('bull:send:wait', 'bull:send:job');
});

test('refusals and circuits that delay nothing are no problems: of paused apps and suspended accounts, and untried', async () => {
  const { apps, accounts, credentials } = database.store;
  const names = ['tried', 'paused', 'suspended', 'untried'];
  const found = await Promise.all(names.map((name) => createRefusedApp(name)));
  const [, paused, suspended, untried] = found;
  await until(async () => {
    const listed = (await getOverview()).problems.map(({ app }) => app?.id);
    return found.every(({ app }) => listed.includes(app));
  });
  const circuits = found.map(({ app }) => {
    return { app, channel: 'fcm' as const, since: 1, reason: '503' };
  });
  await writeOpenCircuits(own, circuits);
  await apps.pause(paused?.app ?? '');
  await accounts.suspend(suspended?.account ?? '');
  const [{ _id = '', revision = '' } = {}] = await credentials.list(untried?.app ?? '');
  await credentials.recordRefusal(_id, revision, 'InvalidProviderToken', -3_601_000);
  const ofThese = async () =>
    (await getOverview()).problems
      .filter(({ app }) => found.some((one) => one.app === app?.id))
      .map(({ kind, app }) => [kind, app?.name]);
  await until(async () => (await ofThese()).length === 3, { what: 'the others are left out' });
  expect((await ofThese()).toSorted()).toEqual([
    ['open-circuit', 'tried'],
    ['open-circuit', 'untried'],
    ['refused-credential', 'tried'],
  ]);
  await own.del('figures:circuits');
});

test('the operators of an account are told that the list of problems is full', async () => {
  const mine = await createRefusedApp('hidden');
  const ofMine = { ...VIEWER, accounts: [mine.account] };
  const many = Array.from({ length: MAX_OPEN_CIRCUITS }, (_, n) => {
    return { app: `${n}`.padStart(24, '0'), channel: 'fcm' as const, since: n, reason: '503' };
  });
  await writeOpenCircuits(own, many);
  const full = { kind: 'installation', text: expect.stringContaining('At least 100 apps') };
  const ofOwnApp = { kind: 'refused-credential', app: { id: mine.app } };
  const problems = await until(async () => {
    const { problems: read } = await getOverview(ofMine);
    return read.length === 2 ? read : undefined;
  });
  expect(problems).toMatchObject([full, ofOwnApp]);
  expect((await getOverview()).problems[0]).toMatchObject(full);
  await own.del('figures:circuits');
});

test('the apps with the most pending work come first, ten of them, whoever has sent most', async () => {
  const backlog = Array.from({ length: 12 }, (_, n) => {
    return { app: `${n}`.padStart(24, '0'), pending: n + 1, isAtLeast: n === 11, oldestMs: 50 };
  });
  await own.set('figures:app-backlog', JSON.stringify(backlog));
  const { apps } = await until(async () => {
    const read = await getOverview();
    return read.apps[0]?.pending === 12 ? read : undefined;
  });
  expect(apps.map(({ pending }) => pending)).toEqual([12, 11, 10, 9, 8, 7, 6, 5, 4, 3]);
  expect(apps[0]).toMatchObject({ isAtLeast: true, oldestMs: 50, accepted: 0, paused: false });
  // Apps without an account that is known are the installation's alone.
  const ofAccount = await getOverview({ ...VIEWER, accounts: ['account-1'] });
  expect(ofAccount.apps.map(({ id, pending }) => [id, pending])).toEqual([[APP, 0]]);
  await own.del('figures:app-backlog');
});

test('the streams of an operator and of the process are limited, and one that ends frees a slot', async () => {
  const viewers = await Promise.all(Array.from({ length: 20 }, () => view()));
  await expect(view()).rejects.toMatchObject({ code: 'TOO_MANY_ATTEMPTS' });
  viewers[0]?.leave();
  viewers.push(await view());
  for (let n = viewers.length - 1; n < MAX_STREAMS; n += 1)
    viewers.push(await view({}, { ...VIEWER, id: `operator ${n}` }));
  const last = { ...VIEWER, id: 'last' };
  await expect(view({}, last)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  for (const viewer of viewers) viewer.leave();
  (await view({}, last)).leave();
});

test('while Redis is unavailable, viewers get the time since when, and figures again afterwards', async () => {
  const viewer = await view();
  const { readAt } = (await viewer.next('overview')) as Overview;
  await redisServer.stop();
  const { since } = (await viewer.next('unavailable')) as { since: number };
  expect(since).toBeGreaterThanOrEqual(readAt);
  await until(async () => (await getOverview().catch(({ code }) => code)) === 'UNAVAILABLE');
  restarted = await startServer(
    'redis-server',
    ({ port, folder }) => [
      '--port',
      `${port}`,
      '--bind',
      '127.0.0.1',
      '--dir',
      folder,
      '--save',
      '',
    ],
    redisServer.port,
  );
  expect(await viewer.next('overview')).toMatchObject({ since: null, scope: 'installation' });
  viewer.leave();
});

function estimate(latenciesMs: readonly number[], quantile: number) {
  const histogram = createLatencyHistogram('x', 'x', 'channel');
  const half = Math.floor(latenciesMs.length / 2);
  histogram.observeMilliseconds('mqtt', Uint32Array.from(latenciesMs.slice(0, half)));
  histogram.observeMilliseconds('apns', Uint32Array.from(latenciesMs.slice(half)));
  const counts = histogram.readBuckets().map(({ boundMs, count }) => [boundMs, count] as const);
  // Redis holds no field for an empty bucket.
  return estimateQuantile(new Map(counts.filter(([, count]) => count > 0)), quantile);
}

/** The bounds between which a duration is counted. */
function bucketOf(ms: number): [lower: number, upper: number] {
  const at = LATENCY_BOUNDS_MS.findIndex((bound) => ms <= bound);
  return [LATENCY_BOUNDS_MS[at - 1] ?? 0, LATENCY_BOUNDS_MS[at] ?? Number.POSITIVE_INFINITY];
}

/** Latencies that are the same in each run, most of them short. */
const manyLatencies = Array.from({ length: 5_000 }, (_, n) =>
  Math.max(1, Math.round(((n * 7_919) % 5_000) ** 2 / 400)),
);

test.each([0.5, 0.9, 0.99])(
  'the quantile %p of many latencies is right within a bucket',
  (quantile) => {
    const exact = manyLatencies.toSorted((a, b) => a - b)[Math.ceil(5_000 * quantile) - 1] ?? 0;
    const [lower, upper] = bucketOf(exact);
    const estimated = estimate(manyLatencies, quantile);
    expect(estimated).toBeGreaterThanOrEqual(lower);
    expect(estimated).toBeLessThanOrEqual(upper);
  },
);

test('so are those of one latency, of none, and of latencies above the last bound', () => {
  expect(estimate([7], 0.5)).toBeGreaterThanOrEqual(5);
  expect(estimate([7], 0.99)).toBeLessThanOrEqual(10);
  expect(estimate([], 0.5)).toBeNull();
  expect(estimate([400_000, 500_000], 0.99)).toBe(300_000);
});
