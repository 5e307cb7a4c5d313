import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { killProcesses } from '../support/first-run/find-processes.ts';
import {
  createTestHome,
  type NpmStart,
  readHomeFile,
  type TestHome,
} from '../support/first-run/test-home.ts';
import { until } from '../support/until.ts';

const MOVE_AWAY = 'move that folder away';

let testHome: TestHome;
beforeEach(async () => {
  testHome = await createTestHome();
});
afterEach(() => testHome?.remove());

/** Starts and stops a stack, so that its folder has data. */
async function startAndStop(): Promise<void> {
  const start = testHome.start();
  await start.ready();
  start.signal('SIGINT');
  await start.exit();
}

async function startErrorOf(start: NpmStart): Promise<string> {
  expect(await start.exit()).toBe(1);
  await until(() => testHome.processes().every((pid) => pid === other?.pid));
  return start.stderr();
}

let other: ReturnType<typeof spawn> | undefined;
afterEach(async () => {
  if (other?.pid !== undefined) await killProcesses([other.pid]);
  other = undefined;
});

describe('MongoDB', () => {
  test('whose folder another server uses: the hint names that process and moves nothing', async () => {
    await startAndStop();
    const mongod = process.env.CARILLON_MONGOD ?? 'mongod';
    const folder = join(testHome.home, 'mongodb');
    const port = String(Number(testHome.env.CARILLON_PORT_BASE) + 99);
    other = spawn(mongod, ['--dbpath', folder, '--port', port], { stdio: 'ignore' });
    await until(() => readHomeFile(testHome, 'mongodb/mongod.lock').includes(String(other?.pid)));
    const said = await startErrorOf(testHome.start());
    expect(said).toContain(`Another MongoDB server (process ${other.pid}) is using`);
    expect(said).not.toContain(MOVE_AWAY);
    other.kill('SIGTERM');
    await once(other, 'exit');
  });

  test('whose files are damaged: the hint says to move them away', async () => {
    await startAndStop();
    await truncate(join(testHome.home, 'mongodb/WiredTiger.turtle'));
    expect(await startErrorOf(testHome.start())).toContain(MOVE_AWAY);
  });

  test('that is not a server: the hint moves nothing', async () => {
    const fake = join(testHome.home, '../mongod');
    await writeFile(
      fake,
      '#!/bin/sh\n[ "$1" = --version ] && echo "db version v8.0.0" || exit 3\n',
    );
    await chmod(fake, 0o755);
    const said = await startErrorOf(testHome.start({ CARILLON_MONGOD: fake }));
    expect(said).not.toContain(MOVE_AWAY);
    expect(said).toContain('MONGODB_URI');
  });
});

describe('Redis', () => {
  test('whose files are damaged: the hint says to move them away, because nothing is lost', async () => {
    await startAndStop();
    const folder = join(testHome.home, 'redis/appendonlydir');
    await rm(folder, { recursive: true });
    await mkdir(folder);
    await writeFile(join(folder, 'appendonly.aof.manifest'), 'no manifest\n');
    const said = await startErrorOf(testHome.start());
    expect(said).toContain('Move that folder away: nothing is lost');
  });
});
