import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmdirSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { findProcesses, killProcesses } from '../support/first-run/find-processes.ts';
import { createTestHome, hasFile, ROOT, type TestHome } from '../support/first-run/test-home.ts';
import { findProcess, readDev } from '../support/stack/dev-file.ts';
import { until } from '../support/until.ts';

const LARGE_DISK = '96m';
/** Full before MongoDB starts, and while MongoDB creates its files. */
const SMALL_DISKS = ['96k', '200k'];
/** Enough for the supervisor's files and too little for MongoDB's. */
const ALMOST_FULL_BYTES = 262_144;

const disks: string[] = [];
let testHome: TestHome;
beforeAll(async () => {
  testHome = await createTestHome();
});
afterAll(async () => {
  for (const disk of disks) {
    await killProcesses(findProcesses(disk));
    unmount(disk);
  }
  await testHome.remove();
});

test.each(SMALL_DISKS)(
  'a start on a disk of %s reports a full disk and leaves no process',
  async (size) => {
    const home = mountHome(size);
    const start = testHome.start({ CARILLON_HOME: home });
    expect(await start.exit()).toBe(1);
    expect(start.stderr()).toMatch(/disk of \S+ is full/);
    expect(start.stderr()).not.toMatch(/^\s+at |move that folder away/m);
    await expectNothingLeft(home);
  },
);

test.each([
  ['full', 'scheduler', 0],
  ['too full for MongoDB', 'mongodb', ALMOST_FULL_BYTES],
])(
  'a running stack whose disk becomes %s ends when its %s does, and reports it',
  async (_how, service, freeBytes) => {
    const home = mountHome(LARGE_DISK);
    const start = testHome.start({ CARILLON_HOME: home });
    const dev = await start.ready();
    fillDisk(home, freeBytes);
    process.kill(findProcess(dev, service, 0).pid, 'SIGKILL');
    expect(await start.exit()).toBe(1);
    expect(start.stderr()).toMatch(/disk of \S+ is full/);
    expect(start.stderr()).not.toMatch(/^\s+at /m);
    await expectNothingLeft(home);
  },
);

test('output to a full disk does not end the stack', async () => {
  const output = openSync('/dev/full', 'w');
  const npmStart = spawn(process.execPath, ['tools/supervisor/bootstrap.mjs', 'start'], {
    cwd: ROOT,
    env: testHome.env,
    stdio: ['ignore', output, output],
  });
  closeSync(output);
  const dev = await until(() => readDev(testHome.home));
  const { pid } = findProcess(dev, 'scheduler', 0);
  process.kill(pid, 'SIGKILL');
  // The restart is printed as well.
  await until(() => {
    const current = readDev(testHome.home);
    return current?.processes.some((one) => one.service === 'scheduler' && one.pid !== pid);
  });
  npmStart.kill('SIGINT');
  expect(await once(npmStart, 'exit')).toEqual([0, null]);
  await expectNothingLeft(testHome.home);
});

async function expectNothingLeft(home: string): Promise<void> {
  await until(() => findProcesses(home).length === 0);
  expect([hasFile({ home }, 'dev.json'), hasFile({ home }, 'processes.json')]).toEqual([
    false,
    false,
  ]);
}

function makeFolder(): string {
  return mkdtempSync(join(tmpdir(), 'carillon-disk-'));
}

/** Mounts a small disk and returns the path of a home on it. */
function mountHome(size: string): string {
  const disk = makeFolder();
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', disk]);
  disks.push(disk);
  return join(disk, 'home');
}

function unmount(folder: string): void {
  execFileSync('umount', [folder]);
  rmdirSync(folder);
}

function fillDisk(folder: string, freeBytes: number): void {
  const { bavail, bsize } = statfsSync(folder);
  const into = join(folder, 'filled');
  mkdirSync(into);
  for (let n = 0, left = bavail * bsize - freeBytes; left > 0; n += 1, left -= 1_048_576) {
    try {
      writeFileSync(join(into, String(n)), Buffer.alloc(Math.min(left, 1_048_576)));
    } catch {
      return;
    }
  }
}
