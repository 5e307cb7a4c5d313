import { rm, truncate } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { killProcesses } from '../support/first-run/find-processes.ts';
import {
  createTestHome,
  hasFile,
  type NpmStart,
  readHomeFile,
  type TestHome,
} from '../support/first-run/test-home.ts';
import { until } from '../support/until.ts';

const POLL_OPTIONS = { everyMs: 5 };

let testHome: TestHome;
beforeAll(async () => {
  testHome = await createTestHome();
});
afterEach(async () => {
  await killAll();
  await rm(testHome.home, { recursive: true, force: true });
});
afterAll(() => testHome?.remove());

/** Milliseconds after MongoDB's first file, 50 apart or less; it has made all of them after about 250. */
const KILL_AFTER_MS = {
  SIGKILL: [0, 25, 50, 75, 100, 125, 150, 175, 200, 225, 250, 300, 350, 400],
  SIGINT: [0, 50, 100, 150, 200, 250],
} as const;

describe.each(['SIGINT', 'SIGKILL'] as const)('%s', (signal) => {
  test.each(KILL_AFTER_MS[signal])(
    '%i ms after the first file: the next start works',
    async (ms) => {
      const start = testHome.start();
      await until(() => hasFile(testHome, 'mongodb/mongod.lock'), POLL_OPTIONS);
      await sleep(ms);
      if (signal === 'SIGINT') start.signal(signal);
      else await killAll();
      await start.exit();
      await untilMongodResponds(testHome.start());
    },
  );
});

test('MongoDB is stopped before its catalogue is whole: the next start works', async () => {
  const start = testHome.start();
  const isOpen = () => readHomeFile(testHome, 'logs/mongodb-0.log').includes('WiredTiger opened');
  await until(isOpen, { ...POLL_OPTIONS, everyMs: 1 });
  for (const pid of servers()) process.kill(pid, 'SIGTERM');
  await killAll();
  await start.exit();
  await untilMongodResponds(testHome.start());
});

test('in whatever state it leaves the files: the next start works', async () => {
  const start = testHome.start();
  await until(() => hasFile(testHome, 'mongodb/storage.bson'), POLL_OPTIONS);
  await killAll();
  await start.exit();
  await truncate(`${testHome.home}/mongodb/WiredTiger.turtle`);
  await untilMongodResponds(testHome.start());
});

test('a complete installation is not repeated', async () => {
  const start = testHome.start();
  const { app } = await start.ready();
  await killAll();
  await start.exit();
  await truncate(`${testHome.home}/mongodb/WiredTiger.turtle`);
  const next = testHome.start();
  expect(await next.exit()).toBe(1);
  expect(next.stderr()).toContain('move that folder away');
  expect(hasFile(testHome, 'mongodb/WiredTiger.wt')).toBe(true);
  expect(readHomeFile(testHome, 'secrets.json')).toContain(app);
});

test('stopped by Ctrl-C and killed again and again, it is complete in the end', async () => {
  for (const signal of ['SIGINT', 'SIGKILL', 'SIGINT'] as const) {
    const start = testHome.start();
    await until(() => hasFile(testHome, 'mongodb/WiredTiger.wt'), POLL_OPTIONS);
    start.signal(signal);
    await start.exit();
    await until(() => testHome.processes().length === 0);
  }
  const start = testHome.start();
  const { app } = await start.ready();
  start.signal('SIGINT');
  await start.exit();
  expect((await testHome.start().ready()).app).toBe(app);
});

test('servers that no file names are ended, and do not delay the next start', async () => {
  const killed = testHome.start();
  await until(() => hasFile(testHome, 'mongodb/storage.bson'), POLL_OPTIONS);
  const strays = servers();
  await killProcesses(testHome.processes().filter((pid) => !strays.includes(pid)));
  await killed.exit();
  await rm(`${testHome.home}/processes.json`, { force: true });
  expect([strays.length, servers()]).toEqual([2, strays]);
  await testHome.start().ready();
});

/** Waits for MongoDB and for the steps before it in a start. */
async function untilMongodResponds(start: NpmStart): Promise<void> {
  let code: number | undefined;
  void start.exit().then((found) => {
    code = found;
  });
  const isPast = () => readHomeFile(testHome, 'processes.json').includes('"api"');
  await until(() => code !== undefined || isPast(), POLL_OPTIONS);
  expect({ code, said: start.stderr() }).toMatchObject({ code: undefined });
}

/** Again as long as there is one: who is killed last may have started another meanwhile. */
async function killAll(): Promise<void> {
  for (let pids = testHome.processes(); pids.length > 0; pids = testHome.processes())
    await killProcesses(pids);
}

/** The processes of MongoDB and Redis. */
function servers(): number[] {
  const nameOf = (pid: number) => readHomeFile({ home: `/proc/${pid}` }, 'comm');
  return testHome.processes().filter((pid) => /mongod|redis-server|valkey/.test(nameOf(pid)));
}
