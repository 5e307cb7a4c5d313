import { expect, test } from '@jest/globals';
import { type Outcome, readResult, runPart, runProgram, select } from './run-part.ts';

const FILES = ['test/console/a.test.ts', 'test/deploy/images.test.ts'];
const part = { title: 'slice', files: FILES };
const RED: Outcome = {
  isOk: false,
  output: '  ● sends a push\nfailed file: test/console/a.test.ts\n8 passed, 1 failed\n',
};

/** Runs the part with these outcomes, one after the other, and collects the arguments. */
async function run(...outcomes: Outcome[]) {
  const calls: (readonly string[])[] = [];
  const result = await runPart(part, select(FILES), async (_title, args) => {
    calls.push(args);
    const outcome = outcomes.shift();
    if (outcome === undefined) throw new Error('one run too many');
    return outcome;
  });
  return { result, calls };
}

test('a passed run is not repeated', async () => {
  const { result, calls } = await run({ isOk: true, output: '9 passed, 0 failed\n' });
  expect(result).toEqual({ passed: 9, failed: 0, failures: [], flaky: [], leftOut: [] });
  expect(calls).toEqual([['--runTestsByPath', ...FILES]]);
});

test('a file that passes only in a second run is named', async () => {
  const { result, calls } = await run(RED, { isOk: true, output: '2 passed, 0 failed\n' });
  expect(result).toMatchObject({ passed: 9, failed: 0, flaky: ['test/console/a.test.ts'] });
  expect(calls[1]).toEqual(['--runTestsByPath', 'test/console/a.test.ts']);
});

test('a file that fails twice fails', async () => {
  const { result } = await run(RED, RED);
  expect(result).toMatchObject({
    ...{ passed: 8, failed: 1, flaky: [] },
    failures: ['● sends a push', 'failed file: test/console/a.test.ts'],
  });
});

test('of two failed files, the one that passes in a second run is named', async () => {
  const output = 'failed file: test/deploy/images.test.ts\n0 passed, 1 failed\n';
  const first = { isOk: false, output: RED.output.replace(/^8.+$/m, output) };
  const { result } = await run(first, RED);
  expect(result).toMatchObject({ failed: 1, flaky: ['test/deploy/images.test.ts'] });
});

test('a second run that breaks off hides no failure of the first', async () => {
  const { result } = await run(RED, { isOk: false, output: '' });
  expect(result).toMatchObject({
    ...{ passed: 8, failed: 1, flaky: [] },
    failures: expect.arrayContaining(['● sends a push']),
  });
});

test('many failed files are not run again', async () => {
  const names = ['a', 'b', 'c', 'd'].map((name) => `failed file: ${name}.test.ts\n`);
  const { result, calls } = await run({
    isOk: false,
    output: `${names.join('')}1 passed, 4 failed\n`,
  });
  expect([result.failed, calls.length]).toEqual([4, 1]);
});

test.each([
  ['broke off', ''],
  ['ended with an error', '9 passed, 0 failed\n'],
  ['ran nothing', '0 passed, 0 failed\n'],
])('a run that %s fails', async (_what, output) => {
  const { result } = await run({ isOk: false, output });
  expect(result.failed).toBe(1);
  expect(result.failures).toEqual(['slice: ended without a failed test']);
});

test('files that the machine can’t run are named, and others are not', () => {
  const output =
    'Left out: images, other (no podman here).\nLeft out: test/console/ (no browsers here).\n';
  expect(readResult('slice', { isOk: false, output }, FILES)).toEqual({
    ...{ passed: 0, failed: 0, failures: [], flaky: [] },
    leftOut: [
      'test/deploy/images.test.ts (no podman here)',
      'test/console/a.test.ts (no browsers here)',
    ],
  });
});

test('a file that is left out for two reasons hides no run that broke off', () => {
  const output = 'Left out: images (no root here).\nLeft out: images, other (no kubectl).\n';
  expect(readResult('slice', { isOk: false, output }, FILES)).toMatchObject({
    failed: 1,
    leftOut: ['test/deploy/images.test.ts (no root here; no kubectl)'],
  });
});

test('a program that takes too long is stopped', async () => {
  const outcome = await runProgram(['sh', '-c', 'sleep 60; true'], {
    root: '.',
    timeoutMs: 50,
    isShown: false,
  });
  expect(outcome.isOk).toBe(false);
});
