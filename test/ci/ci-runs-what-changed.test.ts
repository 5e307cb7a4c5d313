import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { MAX_SLICE_SECONDS } from '../support/jest/slices.ts';
import { filesOf, readTiers } from '../support/jest/tiers.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';
import { countCommits, listRecentChanges } from './changes.ts';
import { makePlan } from './plan.ts';
import { type Outcome, readResult, runPart, runProgram, select } from './run-part.ts';

describe('what changed since a commit', () => {
  let root: string;
  beforeEach(() => {
    root = createTemporaryFolder();
    git(['init', '--quiet', '--initial-branch=main']);
  });

  /** Without what a hook sets, and without the settings of the user: nothing may reach another repository. */
  const ENV = {
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_'))),
    ...{ GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' },
  };

  function git(args: readonly string[], hoursAgo = 0): void {
    const identity = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com'];
    const GIT_COMMITTER_DATE = new Date(Date.now() - hoursAgo * 3_600_000).toISOString();
    execFileSync('git', [...identity, ...args], { cwd: root, env: { ...ENV, GIT_COMMITTER_DATE } });
  }

  /** Writes files and commits them so many hours ago. */
  function commit(hoursAgo: number, ...names: string[]): void {
    for (const name of names) writeFileSync(join(root, name), `${hoursAgo}`);
    git(['add', '--all']);
    git(['commit', '--quiet', '-m', 'A commit'], hoursAgo);
  }

  test('the files that differ from the newest commit older than six hours are listed', () => {
    commit(9, 'a.ts', 'b.ts', 'kept.test.ts', 'gone.test.ts');
    commit(7, 'b.ts');
    commit(5, 'c.ts');
    commit(1, 'a.ts', 'kept.test.ts');
    rmSync(join(root, 'gone.test.ts'));
    commit(1);
    writeFileSync(join(root, 'new.ts'), '');
    writeFileSync(join(root, 'c.ts'), 'changed');
    expect(listRecentChanges(root)?.toSorted()).toEqual(['a.ts', 'c.ts', 'kept.test.ts', 'new.ts']);
    expect(countCommits(root)).toBe(5);
  });

  test('of a merge, all that it brings is listed', () => {
    commit(30, 'a.ts');
    commit(20, 'b.ts');
    git(['checkout', '--quiet', '-b', 'topic', 'HEAD^']);
    commit(10, 'topic.ts');
    git(['checkout', '--quiet', 'main']);
    git(['merge', '--quiet', '--no-ff', '-m', 'A merge', 'topic'], 1);
    expect(listRecentChanges(root)).toEqual(['topic.ts']);
  });

  test('what the newest commit changed is listed, however old it is', () => {
    commit(30, 'a.ts');
    commit(20, 'b.ts');
    expect(listRecentChanges(root)).toEqual(['b.ts']);
  });

  test('without a commit that old, and without git, it can’t be told', () => {
    commit(5, 'a.ts');
    expect(listRecentChanges(root)).toBeUndefined();
    rmSync(join(root, '.git'), { recursive: true });
    expect(listRecentChanges(root)).toBeUndefined();
    expect(countCommits(root)).toBe(0);
  });
});

describe('the plan of a run', () => {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const tiers = readTiers(root);
  const rest = tiers.filter(({ name }) => !['fast', 'stack'].includes(name));
  const all = rest.flatMap(filesOf).toSorted();
  const secondsOf = JSON.parse(readFileSync(`${root}test/support/jest/seconds.json`, 'utf8'));

  const plan = (changes: string[] | undefined, commits = 0) =>
    makePlan({ tiers, secondsOf, changes, commits });
  const filesOfParts = (parts: readonly { files: string[] }[]) =>
    parts.flatMap(({ files }) => files).toSorted();
  const whole = plan(undefined);
  const { length: count } = whole.parts;

  test('a change of a package is tested by npm test and a slice', () => {
    const { daily, parts } = plan(['packages/core/src/backoff.ts']);
    const titles = [daily, ...parts].map(({ title }) => title);
    expect(titles).toEqual(['fast, stack', `slice 1 of ${count}`]);
  });

  test('a change of a manifest is also tested by the images and by Kubernetes', () => {
    const { parts } = plan(['packages/core/src/backoff.ts', 'k8s/base/kustomization.yaml']);
    expect(parts[0]).toMatchObject({
      title: 'deploy (k8s/base/kustomization.yaml changed)',
      files: expect.arrayContaining([
        'test/deploy/images-run-by-compose.test.ts',
        'test/deploy/k8s-pods-get-ready.test.ts',
      ]),
    });
  });

  test('a tier too long for one run is concerned in parts, which take turns', () => {
    const ofLong = (commits: number) =>
      plan(['services/delivery-worker/src/main.ts'], commits).parts.filter(({ title }) =>
        title.startsWith('long ('),
      );
    const long = rest.filter(({ name }) => name === 'long');
    expect(filesOfParts(ofLong(0))).toEqual(long.flatMap(filesOf).toSorted());
    expect(ofLong(0).length).toBeGreaterThan(1);
    expect(ofLong(1)[0]?.title).toBe(ofLong(0)[1]?.title);
  });

  test('no concerned tier takes the time of the others', () => {
    const services = ['services/delivery-worker/src/main.ts', 'services/api/src/main.ts'];
    const names = plan([...services, 'k8s/a.yaml']).parts.map(({ title }) => title.split(' ')[0]);
    expect(names.slice(0, 4)).toEqual(['deploy', 'long', 'python', 'long']);
  });

  test('a changed test file is run', () => {
    const file = 'test/topologies/queues-work-in-a-cluster.test.ts';
    const { parts } = plan([file, 'test/support/jest/tiers.ts']);
    expect(parts[0]).toMatchObject({ title: 'changed test files', files: [file] });
  });

  test('a file may concern a single test', () => {
    const [part] = plan(['tools/supervisor/bootstrap/test-run.mjs']).parts;
    expect(part?.files).toEqual(['test/first-run/interrupted-tests-leave-no-process.test.ts']);
  });

  test('the slices of as many runs cover every test file exactly once', () => {
    const slices = Array.from({ length: count }, (_, commits) => plan([], commits).parts.at(-1));
    expect(filesOfParts(slices.filter((slice) => slice !== undefined))).toEqual(all);
  });

  test('a run names the slices that it leaves out', () => {
    const { parts, leftOut } = plan([]);
    const titles = [...parts.map(({ title }) => title), ...leftOut];
    expect(titles.toSorted()).toEqual(whole.parts.map(({ title }) => title).toSorted());
    expect(new Set(titles).size).toBe(count);
  });

  test.each([
    ['what changed is unknown', undefined],
    ['a file is in no row', ['a-new-folder/file.ts']],
  ])('all slices are run when %s, beginning with the one whose turn it is', (_why, changes) => {
    const { parts, leftOut } = plan(changes, count + 1);
    expect([parts[0]?.title, leftOut]).toEqual([`slice 2 of ${count}`, []]);
    expect(filesOfParts(parts)).toEqual(all);
  });

  test('a slice takes ten minutes at most, where the files were measured', () => {
    const isLong = ({ seconds }: { seconds: number }) => seconds > MAX_SLICE_SECONDS;
    expect(whole.parts.filter((part) => isLong(part) && part.files.length > 1)).toEqual([]);
  });
});

describe('the results of a part', () => {
  const FILES = ['test/console/a.test.ts', 'test/deploy/images.test.ts'];
  const NONE = { failures: [], flaky: [], leftOut: [] };
  const green = (output: string): Outcome => ({ isOk: true, output });
  const red = (output: string): Outcome => ({ isOk: false, output });
  const RED = red('  ● sends a push\nfailed file: test/console/a.test.ts\n8 passed, 1 failed\n');
  const FAILED = { passed: 8, failed: 1, flaky: [] };

  /** Runs the part with these outcomes, one after the other, and collects the arguments. */
  async function run(...outcomes: Outcome[]) {
    const calls: (readonly string[])[] = [];
    const part = { title: 'slice', files: FILES };
    const result = await runPart(part, select(FILES), async (_title, args) => {
      calls.push(args);
      return outcomes.shift() ?? Promise.reject(new Error('one run too many'));
    });
    return { result, calls };
  }

  test('a passed run is not repeated', async () => {
    const { result, calls } = await run(green('9 passed, 0 failed\n'));
    expect(result).toEqual({ passed: 9, failed: 0, ...NONE });
    expect(calls).toEqual([['--runTestsByPath', ...FILES]]);
  });

  test('a file that passes only in a second run is named', async () => {
    const { result, calls } = await run(RED, green('2 passed, 0 failed\n'));
    expect(result).toMatchObject({ passed: 9, failed: 0, flaky: ['test/console/a.test.ts'] });
    expect(calls[1]).toEqual(['--runTestsByPath', 'test/console/a.test.ts']);
  });

  test('a file that fails twice fails', async () => {
    const failures = ['● sends a push', 'failed file: test/console/a.test.ts'];
    expect((await run(RED, RED)).result).toMatchObject({ ...FAILED, failures });
  });

  test('of two failed files, the one that passes in a second run is named', async () => {
    const output = 'failed file: test/deploy/images.test.ts\n0 passed, 1 failed\n';
    const { result } = await run(red(RED.output.replace(/^8.+$/m, output)), RED);
    expect(result).toMatchObject({ failed: 1, flaky: ['test/deploy/images.test.ts'] });
  });

  test('a second run that breaks off hides no failure of the first', async () => {
    const failures = expect.arrayContaining(['● sends a push']);
    expect((await run(RED, red(''))).result).toMatchObject({ ...FAILED, failures });
  });

  test('many failed files are not run again', async () => {
    const names = ['a', 'b', 'c', 'd'].map((name) => `failed file: ${name}.test.ts\n`);
    const { result, calls } = await run(red(`${names.join('')}1 passed, 4 failed\n`));
    expect([result.failed, calls.length]).toEqual([4, 1]);
  });

  test.each([
    ['broke off', ''],
    ['ended with an error', '9 passed, 0 failed\n'],
    ['ran nothing', '0 passed, 0 failed\n'],
  ])('a run that %s fails', async (_what, output) => {
    const { result } = await run(red(output));
    expect(result.failed).toBe(1);
    expect(result.failures).toEqual(['slice: ended without a failed test']);
  });

  test('files that the machine can’t run are named, and others are not', () => {
    const reasons = ['images, other (no podman here)', 'test/console/ (no browsers here)'];
    const output = reasons.map((reason) => `Left out: ${reason}.\n`).join('');
    const leftOut = [`${FILES[1]} (no podman here)`, `${FILES[0]} (no browsers here)`];
    const result = readResult('slice', red(output), FILES);
    expect(result).toEqual({ passed: 0, failed: 0, ...NONE, leftOut });
  });

  test('a file that is left out for two reasons hides no run that broke off', () => {
    const output = 'Left out: images (no root here).\nLeft out: images, other (no kubectl).\n';
    const leftOut = ['test/deploy/images.test.ts (no root here; no kubectl)'];
    expect(readResult('slice', red(output), FILES)).toMatchObject({ failed: 1, leftOut });
  });

  test('a program that takes too long is stopped', async () => {
    const options = { root: '.', timeoutMs: 50, isShown: false };
    expect((await runProgram(['sh', '-c', 'sleep 60; true'], options)).isOk).toBe(false);
  });
});
