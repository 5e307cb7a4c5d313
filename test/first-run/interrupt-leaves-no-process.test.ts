import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { killProcesses } from '../support/first-run/find-processes.ts';
import {
  createTestHome,
  hasFile,
  type NpmStart,
  ROOT,
  readHomeFile,
  type TestHome,
} from '../support/first-run/test-home.ts';
import { findProcess } from '../support/stack/dev-file.ts';
import { until } from '../support/until.ts';

const SUPERVISOR_OPTIONS = { everyMs: 10 };

/** A signal that arrives sooner counts as the same Ctrl-C. */
const OTHER_KEYSTROKE_MS = 1_000;
/** How long a service that doesn't end is waited for, without a second signal. */
const SERVICE_STOP_TIMEOUT_MS = 25_000;

let testHome: TestHome;
beforeAll(async () => {
  testHome = await createTestHome({ demo: true });
});
afterAll(() => testHome?.remove());
// Processes that one test leaves behind must not fail the next one.
afterEach(() => killProcesses(testHome.processes()));

/** Stages of a start, in their order. */
const START_STAGES: [string, (start: NpmStart) => boolean][] = [
  ['at once', () => true],
  ['when the folder is there', () => hasFile(testHome, '.')],
  ['when the supervisor has the folder', () => hasFile(testHome, 'lock')],
  ['when the servers are started', () => hasFile(testHome, 'processes.json')],
  [
    'when MongoDB responds',
    () => /Waiting for connections/.test(readHomeFile(testHome, 'logs/mongodb-0.log')),
  ],
  [
    'when the services are started',
    () => readHomeFile(testHome, 'processes.json').includes('"api"'),
  ],
  [
    'when the device is started',
    () => readHomeFile(testHome, 'processes.json').includes('simulated'),
  ],
  ['when the banner is there', ({ stdout }) => stdout().includes('Ctrl-C')],
];

describe('SIGINT', () => {
  test.each(START_STAGES)(
    '%s ends npm start and all processes that it has started',
    async (_when, isTime) => {
      const start = testHome.start();
      await until(() => isTime(start), SUPERVISOR_OPTIONS);
      start.signal('SIGINT');
      await start.exit();
      await expectNothingLeft();
      expect(start.stderr()).not.toMatch(/^\s+at /m);
    },
  );

  test('given twice ends it sooner, and as completely', async () => {
    const start = testHome.start();
    const { pid } = findProcess(await start.ready(), 'api', 0);
    // It would be waited for.
    process.kill(pid, 'SIGSTOP');
    const requestedAt = performance.now();
    start.signal('SIGINT');
    await until(() => start.stdout().includes('Stopping'));
    await sleep(OTHER_KEYSTROKE_MS);
    start.signal('SIGINT');
    await start.exit();
    expect(performance.now() - requestedAt).toBeLessThan(SERVICE_STOP_TIMEOUT_MS);
    await expectNothingLeft();
  });

  test('from a terminal reaches npm and its children together', async () => {
    const env = { ...testHome.env, npm_config_update_notifier: 'false' };
    const npm = spawn('npm', ['start'], { cwd: ROOT, env, stdio: 'ignore', detached: true });
    const ended = once(npm, 'exit');
    await until(() => hasFile(testHome, 'dev.json'), SUPERVISOR_OPTIONS);
    process.kill(-(npm.pid ?? 0), 'SIGINT');
    await ended;
    await expectNothingLeft();
  });
});

describe('kill -9', () => {
  test('of npm start itself leaves nothing behind', async () => {
    const start = testHome.start();
    await start.ready();
    start.signal('SIGKILL');
    await start.exit();
    await expectNothingLeft();
  });

  test('of the supervisor leaves nothing behind', async () => {
    const start = testHome.start();
    await start.ready();
    process.kill((JSON.parse(readHomeFile(testHome, 'lock')) as { pid: number }).pid, 'SIGKILL');
    expect(await start.exit()).not.toBe(0);
    await expectNothingLeft();
  });

  test('of everything at once leaves a folder that starts again', async () => {
    const killed = testHome.start();
    await killed.ready();
    await killProcesses(testHome.processes());
    await killed.exit();
    await until(() => testHome.processes().length === 0);
    const start = testHome.start();
    // The state of the killed run is removed before anything else is reported.
    await until(() => !hasFile(testHome, 'dev.json'));
    await start.ready();
    start.signal('SIGINT');
    expect(await start.exit()).toBe(0);
    await expectNothingLeft();
  });
});

describe('a MongoDB that a killed run left behind', () => {
  test('is stopped by the next start, also on another path to the same folder', async () => {
    const link = `${testHome.home}-link`;
    await symlink(testHome.home, link);
    const killed = testHome.start();
    const mongod = findProcess(await killed.ready(), 'mongodb', 0).pid;
    await killProcesses(testHome.processes().filter((pid) => pid !== mongod));
    await killed.exit();
    // As after a kill between the start of MongoDB and the write of the list.
    await rm(join(testHome.home, 'processes.json'));
    await until(() => testHome.processes().every((pid) => pid === mongod));
    expect(testHome.processes()).toEqual([mongod]);
    const start = testHome.start({ CARILLON_HOME: link });
    await until(() => !hasFile(testHome, 'dev.json'));
    expect(findProcess(await start.ready(), 'mongodb', 0).pid).not.toBe(mongod);
    start.signal('SIGINT');
    expect(await start.exit()).toBe(0);
    await expectNothingLeft();
  });
});

/** Checks that no process runs and no file names one. */
async function expectNothingLeft(): Promise<void> {
  await until(() => testHome.processes().length === 0).catch(() => {
    throw new Error(`left behind: ${testHome.processes().map(readCommand).join('; ')}`);
  });
  expect(hasFile(testHome, 'dev.json')).toBe(false);
  expect(hasFile(testHome, 'processes.json')).toBe(false);
}

function readCommand(pid: number): string {
  return `${pid} ${readHomeFile({ home: `/proc/${pid}` }, 'cmdline').replaceAll('\0', ' ')}`;
}
