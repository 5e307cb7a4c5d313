import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import {
  createPlace,
  isThere,
  type NpmStart,
  type Place,
  ROOT,
  textOf,
} from '../support/first-run/npm-start.ts';
import { endAll } from '../support/first-run/processes-of.ts';
import { findProcess } from '../support/stack/dev-file.ts';
import { until } from '../support/until.ts';

const SUPERVISOR_PATIENCE = { timeoutMs: 30_000, everyMs: 10 };

/** What comes sooner is taken for the same Ctrl-C. */
const OTHER_KEYSTROKE_MS = 1_000;
/** How long a service that doesn't end is waited for, when nobody asks twice. */
const SERVICE_PATIENCE_MS = 25_000;

let place: Place;
beforeAll(async () => {
  place = await createPlace({ demo: true });
});
afterAll(() => place?.clear());
// What one test has left behind is not the next one's fault.
afterEach(() => endAll(place.processes()));

/** Moments on the way of a start, in their order. */
const MOMENTS: [string, (start: NpmStart) => boolean][] = [
  ['at once', () => true],
  ['when the folder is there', () => isThere(place, '.')],
  ['when the supervisor has the folder', () => isThere(place, 'lock')],
  ['when the servers are started', () => isThere(place, 'processes.json')],
  [
    'when MongoDB answers',
    () => /Waiting for connections/.test(textOf(place, 'logs/mongodb-0.log')),
  ],
  ['when the services are started', () => textOf(place, 'processes.json').includes('"api"')],
  ['when the device is started', () => textOf(place, 'processes.json').includes('simulated')],
  ['when the banner is there', ({ stdout }) => stdout().includes('Ctrl-C')],
];

describe('SIGINT', () => {
  test.each(MOMENTS)('%s ends npm start and all that it has started', async (_when, isTime) => {
    const start = place.start();
    await until(() => isTime(start), SUPERVISOR_PATIENCE);
    start.signal('SIGINT');
    await start.exit();
    await expectNothingLeft();
    expect(start.stderr()).not.toMatch(/^\s+at /m);
  });

  test('ends a ready stack with exit code 0', async () => {
    const start = place.start();
    await start.ready();
    start.signal('SIGINT');
    expect(await start.exit()).toBe(0);
    await expectNothingLeft();
  });

  test('given twice ends it sooner, and as completely', async () => {
    const start = place.start();
    const { pid } = findProcess(await start.ready(), 'api', 0);
    // It would be waited for.
    process.kill(pid, 'SIGSTOP');
    const askedAt = performance.now();
    start.signal('SIGINT');
    await until(() => start.stdout().includes('Stopping'));
    await sleep(OTHER_KEYSTROKE_MS);
    start.signal('SIGINT');
    await start.exit();
    expect(performance.now() - askedAt).toBeLessThan(SERVICE_PATIENCE_MS);
    await expectNothingLeft();
  });

  test('from a terminal reaches npm and its children together', async () => {
    const env = { ...place.env, npm_config_update_notifier: 'false' };
    const npm = spawn('npm', ['start'], { cwd: ROOT, env, stdio: 'ignore', detached: true });
    const ended = once(npm, 'exit');
    await until(() => isThere(place, 'dev.json'), SUPERVISOR_PATIENCE);
    process.kill(-(npm.pid ?? 0), 'SIGINT');
    await ended;
    await expectNothingLeft();
  });
});

describe('kill -9', () => {
  test('of npm start itself leaves nothing behind', async () => {
    const start = place.start();
    await start.ready();
    start.signal('SIGKILL');
    await start.exit();
    await expectNothingLeft();
  });

  test('of the supervisor leaves nothing behind', async () => {
    const start = place.start();
    await start.ready();
    process.kill((JSON.parse(textOf(place, 'lock')) as { pid: number }).pid, 'SIGKILL');
    expect(await start.exit()).not.toBe(0);
    await expectNothingLeft();
  });

  test('of everything at once leaves a folder that starts again', async () => {
    const killed = place.start();
    await killed.ready();
    for (const pid of place.processes()) killIfThere(pid);
    await killed.exit();
    await until(() => place.processes().length === 0);
    const start = place.start();
    // What the killed run has said of itself is taken back before anything else is said.
    await until(() => !isThere(place, 'dev.json'));
    await start.ready();
    start.signal('SIGINT');
    expect(await start.exit()).toBe(0);
    await expectNothingLeft();
  });
});

/** No process, and no word of one. */
async function expectNothingLeft(): Promise<void> {
  await until(() => place.processes().length === 0, { timeoutMs: 25_000 }).catch(() => {
    throw new Error(`left behind: ${place.processes().map(commandOf).join('; ')}`);
  });
  expect(isThere(place, 'dev.json')).toBe(false);
  expect(isThere(place, 'processes.json')).toBe(false);
}

function commandOf(pid: number): string {
  return `${pid} ${textOf({ home: `/proc/${pid}` }, 'cmdline').replaceAll('\0', ' ')}`;
}

/** One that was found may end by itself meanwhile, for instance a shell. */
function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
