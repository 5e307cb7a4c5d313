import { processCounts } from '@carillon/core/process-counts';
import { startFigures } from '@carillon/presence/figures-writer';
import { connectRedis, type Redis } from '@carillon/presence/redis';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import type { SessionOperator } from '../src/http/route.ts';
import type { Overview } from '../src/live/overview.ts';
import { MAX_STREAMS } from '../src/live/routes.ts';
import {
  ALL_ACCOUNTS_VIEWER,
  countCommands,
  createRefusedApp,
  type LiveUnderTest,
  startLive,
} from './live-under-test.ts';

let live: LiveUnderTest;
let own: Redis;
beforeAll(async () => {
  live = await startLive();
  own = await connectRedis(live.server);
});
afterAll(async () => {
  own.disconnect();
  await live.stop();
});

const getOverview = (operator?: SessionOperator) =>
  live.get('/overview', {}, operator) as Promise<Overview>;

/** Queries of the live data in the database's profile, so far. */
const countQueries = () =>
  live.database.db.collection('system.profile').countDocuments({ ns: /credentials|pushes/ });

test('twenty viewers cost as many commands as one, and no viewer costs none', async () => {
  await live.database.db.command({ profile: 2 });
  const viewers = await Promise.all(
    Array.from({ length: 20 }, (_, n) =>
      live.view({}, { ...ALL_ACCOUNTS_VIEWER, id: `viewer ${n}` }),
    ),
  );
  await Promise.all(viewers.map((viewer) => viewer.next('overview')));
  const [before, queriesBefore] = [await countCommands(own), await countQueries()];
  const known = viewers.map(({ events }) => events.length);
  await Promise.all(viewers.map((viewer) => viewer.next('overview')));
  await Promise.all(viewers.map((viewer) => viewer.next('overview')));
  const [after, queriesAfter] = [await countCommands(own), await countQueries()];
  const reads = Math.max(...viewers.map(({ events }, n) => events.length - (known[n] ?? 0)));
  expect((after.set ?? 0) - (before.set ?? 0)).toBeLessThanOrEqual(reads + 1);
  expect((after.hgetall ?? 0) - (before.hgetall ?? 0)).toBeLessThanOrEqual(60 * (reads + 1));
  expect(queriesAfter - queriesBefore).toBeLessThanOrEqual(reads + 1);
  for (const viewer of viewers) viewer.leave();
  // The read in progress ends; from then on the counts stay while other commands pass a dozen times the interval.
  const settled = await until(async () => {
    const one = await countCommands(own);
    await own.blpop('never', 0.15);
    return (await countCommands(own)).hgetall === one.hgetall ? one : undefined;
  });
  const queriesSettled = await countQueries();
  for (let i = 0; i < 4; i += 1) await own.blpop('never', 0.15);
  // The test's own commands, and those by which clients verify that a quiet connection is alive.
  const { info, blpop, ping, ...others } = await countCommands(own);
  const { info: infoBefore, blpop: blpopBefore, ping: pingBefore, ...othersBefore } = settled;
  expect(others).toEqual(othersBefore);
  expect(await countQueries()).toBe(queriesSettled);
  await live.database.db.command({ profile: 0 });
});

test('counts of a process are in the overview, and hidden from a viewer of some accounts', async () => {
  const figures = startFigures(live.server, {
    log: { warn: () => undefined },
    intervalMs: 20,
    readBuckets: () => [{ boundMs: 50, count: 4 }],
  });
  processCounts.pushesAccepted += 3;
  figures.reportOnline('gateway-1', () => 9);
  const viewer = await live.view({ minutes: 2 });
  const overview = await until(async () => {
    const read = (await viewer.next('overview')) as Overview;
    return read.gateways.length === 1 ? read : undefined;
  });
  expect(overview.gateways).toEqual([{ id: 'gateway-1', online: 9 }]);
  expect(overview.minutes.reduce((sum, { accepted }) => sum + accepted, 0)).toBe(3);
  expect(overview.since).toBeLessThanOrEqual(overview.readAt);
  expect(overview.latency.p99Ms).toBeGreaterThanOrEqual(20);
  expect(overview.latency.p99Ms).toBeLessThanOrEqual(50);
  await figures.stop();
  viewer.leave();

  const [mine, others] = await Promise.all(
    ['mine', 'theirs'].map((name) => createRefusedApp(live.database, name)),
  );
  await until(async () => (await getOverview()).refusedCredentials.length === 2);
  const restricted = await getOverview({ ...ALL_ACCOUNTS_VIEWER, accounts: [mine?.account ?? ''] });
  expect(restricted).toMatchObject({ scope: 'accounts', minutes: [], gateways: [], channels: [] });
  expect(restricted.refusedCredentials).toEqual([
    {
      ...{ app: mine?.app, appName: 'mine', channel: 'apns', message: 'InvalidProviderToken' },
      refusedAt: expect.any(Number),
    },
  ]);
  expect(JSON.stringify(restricted)).not.toContain(others?.app);
});

test('the streams of an operator and of the process are limited, and one that ends frees a slot', async () => {
  const viewers = await Promise.all(Array.from({ length: 20 }, () => live.view()));
  await expect(live.view()).rejects.toMatchObject({ code: 'TOO_MANY_ATTEMPTS' });
  viewers[0]?.leave();
  viewers.push(await live.view());
  for (let n = viewers.length - 1; n < MAX_STREAMS; n += 1)
    viewers.push(await live.view({}, { ...ALL_ACCOUNTS_VIEWER, id: `operator ${n}` }));
  const last = { ...ALL_ACCOUNTS_VIEWER, id: 'last' };
  await expect(live.view({}, last)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  for (const viewer of viewers) viewer.leave();
  (await live.view({}, last)).leave();
});

test('while Redis is unavailable, viewers get the time since when, and figures again afterwards', async () => {
  const viewer = await live.view();
  await viewer.next('overview');
  await live.server.stop();
  const { since } = (await viewer.next('unavailable')) as { since: number };
  expect(Date.now() - since).toBeLessThan(10_000);
  await until(() =>
    getOverview().then(
      () => false,
      (error) => error.code === 'UNAVAILABLE',
    ),
  );
  await live.restartRedis();
  expect(await viewer.next('overview')).toMatchObject({ since: null, scope: 'installation' });
  viewer.leave();
});
