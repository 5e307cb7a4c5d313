import { chmod, cp, mkdir, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { startProcess } from '../support/child-process.ts';
import {
  createTestHome,
  type NpmStart,
  readHomeFile,
  type TestHome,
} from '../support/first-run/test-home.ts';
import { until } from '../support/until.ts';

const MOVE_AWAY = 'move that folder away';

let testHome: TestHome;
/** Copy of the folder of a stack that was started and stopped. */
let whole: string;
beforeAll(async () => {
  testHome = await createTestHome();
  const start = testHome.start();
  await start.ready();
  start.signal('SIGINT');
  await start.exit();
  whole = `${testHome.home}-whole`;
  await cp(testHome.home, whole, { recursive: true });
});
beforeEach(async () => {
  await rm(testHome.home, { recursive: true });
  await cp(whole, testHome.home, { recursive: true });
});
afterAll(() => testHome?.remove());

async function startErrorOf(start: NpmStart, other?: number): Promise<string> {
  expect(await start.exit()).toBe(1);
  await until(() => testHome.processes().every((pid) => pid === other));
  return start.stderr();
}

describe('MongoDB', () => {
  test('whose folder another server uses: the hint names that process and moves nothing', async () => {
    const mongod = process.env.CARILLON_MONGOD ?? 'mongod';
    const port = String(Number(testHome.env.CARILLON_PORT_BASE) + 99);
    const args = ['--dbpath', join(testHome.home, 'mongodb'), '--port', port];
    const other = startProcess(mongod, args, { output: 'ignored' });
    await until(() => readHomeFile(testHome, 'mongodb/mongod.lock').includes(`${other.pid}`));
    const said = await startErrorOf(testHome.start(), other.pid);
    expect(said).toContain(`Another MongoDB server (process ${other.pid}) is using`);
    expect(said).not.toContain(MOVE_AWAY);
    await other.stop();
  });

  test('whose files are damaged: the hint says to move them away', async () => {
    await truncate(join(testHome.home, 'mongodb/WiredTiger.turtle'));
    expect(await startErrorOf(testHome.start())).toContain(MOVE_AWAY);
  });

  test('that is not a server: the hint moves nothing', async () => {
    const fake = join(testHome.home, '../mongod');
    const script = '#!/bin/sh\n[ "$1" = --version ] && echo "db version v8.0.0" || exit 3\n';
    await writeFile(fake, script);
    await chmod(fake, 0o755);
    const said = await startErrorOf(testHome.start({ CARILLON_MONGOD: fake }));
    expect(said).not.toContain(MOVE_AWAY);
    expect(said).toContain('MONGODB_URI');
  });
});

test('Redis whose files are damaged: the hint says to move them away, because nothing is lost', async () => {
  const folder = join(testHome.home, 'redis/appendonlydir');
  await rm(folder, { recursive: true });
  await mkdir(folder);
  await writeFile(join(folder, 'appendonly.aof.manifest'), 'no manifest\n');
  const said = await startErrorOf(testHome.start());
  expect(said).toContain('Move that folder away: nothing is lost');
});
