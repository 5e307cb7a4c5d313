import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { findProcesses } from '../support/first-run/find-processes.ts';
import { readChildPids } from '../support/stack/processes.ts';
import { until } from '../support/until.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const END = { everyMs: 100 };

test.each([
  ['with a MongoDB and workers', 'packages/store/test', 'jest-worker'],
  [
    'with a stack',
    'test/first-run/banner-commands-work.test.ts',
    'services/device-gateway/src/main.ts',
  ],
])('SIGINT to npm test %s leaves no process', async (_what, path, awaited) => {
  const npm = spawn('npm', ['test', '--', path], { cwd: ROOT, stdio: 'ignore' });
  const ended = once(npm, 'exit');
  try {
    const name = await untilStarted(npm.pid ?? 0, awaited);
    expect(findProcesses('no folder', name).length).toBeGreaterThan(2);
    npm.kill('SIGINT');
    await until(() => findProcesses('no folder', name).length === 0, END);
    const [code] = await ended;
    expect(code).not.toBe(0);
    const folders = ['/dev/shm', '/tmp'].flatMap((folder) => readdirSync(folder));
    expect(folders.filter((one) => one.includes(name))).toEqual([]);
  } finally {
    npm.kill('SIGTERM');
    await ended;
  }
});

/** Waits for a process with a word in its command line. @returns the name of the run */
async function untilStarted(npm: number, awaited: string): Promise<string> {
  const find = () => descendantsOf(npm).find((pid) => readCommand(pid).includes(awaited));
  await until(find, { everyMs: 50 });
  const names = descendantsOf(npm).map((pid) => readRunName(pid));
  return names.find((name) => name !== undefined) ?? 'no name';
}

function descendantsOf(pid: number): number[] {
  return readChildPids(pid).flatMap((child) => [child, ...descendantsOf(child)]);
}

function readCommand(pid: number): string {
  return read(`/proc/${pid}/cmdline`);
}

function readRunName(pid: number): string | undefined {
  const [, name] = /CARILLON_TEST_RUN=([^\0]+)/.exec(read(`/proc/${pid}/environ`)) ?? [];
  // A child's environment is that of its parent until its program is started.
  return name === process.env.CARILLON_TEST_RUN ? undefined : name;
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
