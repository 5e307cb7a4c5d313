import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { isAlive } from '../../../test/support/stack/processes.ts';
import { until } from '../../../test/support/until.ts';
import { beginTestRun } from '../bootstrap/test-run.mjs';

let testRun: ReturnType<typeof beginTestRun>;
const children: ChildProcess[] = [];

beforeEach(() => {
  testRun = beginTestRun();
});
afterEach(async () => {
  await testRun.stop();
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

/** Starts a shell; what it starts in the background loses its parent when it ends. */
function startShell(script: string, env: NodeJS.ProcessEnv): ChildProcess {
  const child = spawn('/bin/sh', ['-c', script], {
    ...{ env: { PATH: process.env.PATH, ...env }, detached: true },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  children.push(child);
  return child;
}

/** Reads the pid that a shell prints, once the shell has ended. */
async function pidFrom(script: string, env: NodeJS.ProcessEnv = testRun.env): Promise<number> {
  const shell = startShell(script, env);
  let text = '';
  shell.stdout?.on('data', (chunk: Buffer) => {
    text += chunk;
  });
  await until(() => shell.exitCode !== null && text !== '');
  return Number(text);
}

test('a process without a parent is ended after the run, and named', async () => {
  const pid = await pidFrom('sleep 600 >/dev/null & echo $!');
  expect(await testRun.end(false)).toEqual(['sleep 600']);
  expect(isAlive(pid)).toBe(false);
});

test('a process that ignores SIGTERM is ended with an interrupted run', async () => {
  const script = `(trap '' TERM; while :; do sleep 1; done) >/dev/null & echo $!`;
  const pid = await pidFrom(script);
  await testRun.stop();
  expect(isAlive(pid)).toBe(false);
});

test('a process that hides its environment is ended as a child', async () => {
  const shell = startShell('exec env -i sleep 600', testRun.env);
  await testRun.stop();
  expect(isAlive(shell.pid ?? 0)).toBe(false);
});

test.each([
  ['names the run in its command line only is ended', 'env -i /bin/sh', false],
  ['only reads a file of the run goes on', '/bin/sh', true],
])('a process that %s', async (_what, shell, goesOn) => {
  const file = join(testRun.env.TMPDIR ?? '', 'data');
  const pid = await pidFrom(`${shell} -c 'sleep 600; : ${file}' >/dev/null & echo $!`, {});
  await testRun.stop();
  expect(isAlive(pid)).toBe(goesOn);
  if (goesOn) process.kill(pid, 'SIGKILL');
});

test('a process of another run goes on', async () => {
  const other = beginTestRun();
  try {
    const pid = await pidFrom('sleep 600 >/dev/null & echo $!', other.env);
    expect(await testRun.end(false)).toEqual([]);
    await testRun.stop();
    expect(isAlive(pid)).toBe(true);
  } finally {
    await other.stop();
  }
});

test('the files of a failed run stay, and those of an interrupted run go', async () => {
  const { TMPDIR: folder = '' } = testRun.env;
  writeFileSync(join(folder, 'log'), '');
  await testRun.end(true);
  expect(existsSync(folder)).toBe(true);
  await testRun.stop();
  expect(existsSync(folder)).toBe(false);
});

test('nothing stays of a run that was well', async () => {
  const { TMPDIR: folder = '' } = testRun.env;
  mkdirSync(join(folder, 'cache'));
  await testRun.end(false);
  expect(existsSync(folder)).toBe(false);
});
