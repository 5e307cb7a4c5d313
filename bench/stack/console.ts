import { setTimeout as sleep } from 'node:timers/promises';
import { type Db, MongoClient } from 'mongodb';
import { type ConsoleUnderTest, startConsole } from '../console/console-under-test.ts';
import { type Seed, type Seeded, seed } from '../console/seed.ts';
import type { Size, StackFixture } from '../support/fixture.ts';
import { readCpuSeconds } from '../support/resource-usage.ts';
import { percentile } from '../support/statistics.ts';
import type { Row } from '../table.ts';

const USUAL: Seed = { pushes: 1_000_000, devices: 100_000, recipients: 1_000_000 };
const SEEDS: Record<Size, Seed> = {
  quick: { pushes: 50_000, devices: 10_000, recipients: 100_000 },
  usual: USUAL,
  full: USUAL,
};
const REQUESTS = 30;
const VIEWERS = 20;
const WATCHED_MS = 20_000;
/** Longer than the key that marks the figures as watched, and than the figures' own interval. */
const UNWATCHED_MS = 20_000;
/** Besides the stack's own database and Redis database, so that nothing else is in them. */
const DATABASE = 'console_bench';
const REDIS_DATABASE = 1;

/** Measures the console on a large installation: its routes, its viewers, and what it costs without one. */
export async function console(fixture: StackFixture, size: Size): Promise<Row[]> {
  const { mongodb, redis } = fixture.stack.dev;
  const uri = new URL(mongodb);
  uri.pathname = `/${DATABASE}`;
  const redisUrl = new URL(redis);
  redisUrl.pathname = `/${REDIS_DATABASE}`;
  const client = await new MongoClient(uri.href).connect();
  const db = client.db();
  try {
    const seeded = await seed(db, SEEDS[size]);
    const ours = await startConsole(db, uri.href, redisUrl.href);
    try {
      return [
        ...(await measureRoutes(ours, listRoutes(seeded))),
        await measureViewers(ours),
        ...(await countUnwatched(fixture, db)),
      ];
    } finally {
      await ours.stop();
    }
  } finally {
    await db.dropDatabase();
    await client.close();
  }
}

/** Lists the requests of the pages by name. */
function listRoutes({ app, token, topic, push, largePush, middle }: Seeded) {
  const ofApp = `/apps/${app}`;
  return {
    session: '/session',
    overview: '/overview',
    accounts: '/accounts',
    apps: '/apps',
    'an app': ofApp,
    'keys of an app': `${ofApp}/keys`,
    'credentials of an app': `${ofApp}/credentials`,
    'pushes, newest': `${ofApp}/pushes?limit=100`,
    'pushes, from the middle': `${ofApp}/pushes?limit=100&cursor=${middle}`,
    'pushes, finished': `${ofApp}/pushes?limit=100&state=finished`,
    'pushes, none of a state': `${ofApp}/pushes?limit=100&state=deleted`,
    'a push to one device': `/pushes/${push}`,
    'a push to many': `/pushes/${largePush}`,
    'one of its recipients': `/pushes/${largePush}/recipients/${token}`,
    'failed deliveries': `${ofApp}/failures?limit=100`,
    'failed deliveries, another reason': `${ofApp}/failures?limit=100&reason=inbox-full`,
    devices: `${ofApp}/devices?limit=100`,
    'devices, from the middle': `${ofApp}/devices?limit=100&cursor=${token}`,
    'a device': `/devices/${token}`,
    'pushes of a device': `/devices/${token}/pushes`,
    topics: `${ofApp}/topics`,
    'subscribers of a topic': `${ofApp}/topics/${topic}/subscribers?limit=100`,
    'find a device': `/find?q=${token}`,
    'find an app': '/find?q=ben',
    operators: '/operators',
    'audit log': '/audit',
    queues: '/queues',
  };
}

async function measureRoutes(
  { url, cookie }: ConsoleUnderTest,
  routes: Record<string, string>,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [name, path] of Object.entries(routes)) {
    const times: number[] = [];
    for (let n = 0; n < REQUESTS; n += 1) {
      const startedAt = performance.now();
      const response = await fetch(`${url}/api${path}`, { headers: { cookie } });
      const text = await response.text();
      times.push(performance.now() - startedAt);
      if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
    }
    const what = `console: ${name}`;
    rows.push({ what: `${what}, p50`, value: percentile(times, 0.5), unit: 'ms' });
    rows.push({ what: `${what}, p95`, value: percentile(times, 0.95), unit: 'ms' });
  }
  return rows;
}

/** Measures the CPU of the process while twenty browsers show the overview. */
async function measureViewers({ url, cookie, pid }: ConsoleUnderTest): Promise<Row> {
  const leaving = new AbortController();
  const streams = Array.from({ length: VIEWERS }, async () => {
    const { body } = await fetch(`${url}/api/events`, {
      headers: { cookie },
      signal: leaving.signal,
    });
    for await (const _ of body ?? []);
  });
  const ended = Promise.allSettled(streams);
  // The first events belong to the connection.
  await sleep(2_000);
  const before = readCpuSeconds(pid);
  await sleep(WATCHED_MS);
  const percent = ((readCpuSeconds(pid) - before) * 100_000) / WATCHED_MS;
  leaving.abort();
  await ended;
  const what = `console: CPU with ${VIEWERS} viewers of the overview, share of a core`;
  return { what, value: percent, unit: '%' };
}

/** Counts the commands of the console to MongoDB and Redis without a viewer, except the driver's heartbeats. */
async function countUnwatched({ redis }: StackFixture, db: Db): Promise<Row[]> {
  await sleep(UNWATCHED_MS);
  let redisCommands = 0;
  const monitor = await redis.monitor();
  monitor.on('monitor', (_time: string, _args: string[], _source: string, database: string) => {
    if (database === `${REDIS_DATABASE}`) redisCommands += 1;
  });
  await db.command({ profile: 2 });
  await sleep(UNWATCHED_MS);
  await db.command({ profile: 0 });
  monitor.disconnect();
  const mongoCommands = await db
    .collection('system.profile')
    .countDocuments({ appName: 'carillon-dashboard' });
  const name = `in ${UNWATCHED_MS / 1_000} s without a viewer`;
  return [
    { what: `console: operations in MongoDB ${name}`, value: mongoCommands },
    { what: `console: commands to Redis ${name}`, value: redisCommands },
  ];
}
