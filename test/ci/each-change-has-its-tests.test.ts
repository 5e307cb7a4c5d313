import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { findConcerned, findUnusedRows } from '../support/jest/concerned.ts';
import { MAX_SLICE_SECONDS } from '../support/jest/slices.ts';
import { filesOf, readTiers } from '../support/jest/tiers.ts';
import { makePlan } from './plan.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(`${ROOT}${path}`, 'utf8');
const tiers = readTiers(ROOT);
const rest = tiers.filter(({ name }) => !['fast', 'stack'].includes(name));
const secondsOf: Record<string, number> = JSON.parse(read('test/support/jest/seconds.json'));
const paths = execFileSync('git', ['-c', 'safe.directory=*', 'ls-files', '-z'], {
  cwd: ROOT,
  encoding: 'utf8',
})
  .split('\0')
  .filter((path) => path !== '' && existsSync(`${ROOT}${path}`));

const plan = (changes: string[] | undefined, commits = 0) =>
  makePlan({ tiers, secondsOf, changes, commits });
const slicesOf = (changes: string[] | undefined) => {
  const { parts, leftOut } = plan(changes);
  const titles = [...parts.map(({ title }) => title), ...leftOut];
  return titles.filter((title) => title.startsWith('slice '));
};
const count = slicesOf([]).length;

function failed(): never {
  throw new Error('there is no such tier');
}

test('the table of paths has a row for each file, and no other row', () => {
  const isListed = (path: string) => findConcerned([path]) !== undefined;
  expect(paths.filter((path) => !isListed(path))).toEqual([]);
  expect(findUnusedRows(paths)).toEqual([]);
});

test.each(rest)('the tier $name is run when something changes', ({ name }) => {
  const { tiers: concerned } = findConcerned(paths) ?? { tiers: new Map() };
  expect([...concerned.keys()]).toContain(name);
});

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
  const change = ['services/delivery-worker/src/main.ts'];
  const long = filesOf(tiers.find(({ name }) => name === 'long') ?? failed());
  const ofTier = (commits: number) =>
    plan(change, commits).parts.filter(({ title }) => title.startsWith('long ('));
  expect(
    ofTier(0)
      .flatMap(({ files }) => files)
      .toSorted(),
  ).toEqual(long.toSorted());
  expect(ofTier(1)[0]?.title).toBe(ofTier(0)[1]?.title);
});

test('no concerned tier takes the time of the others', () => {
  const changes = [
    'services/delivery-worker/src/main.ts',
    'services/api/src/main.ts',
    'k8s/a.yaml',
  ];
  const names = plan(changes).parts.map(({ title }) => title.split(' ')[0]);
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
  const files = Array.from(
    { length: count },
    (_, commits) => plan([], commits).parts.at(-1)?.files ?? [],
  );
  expect(files.flat().toSorted()).toEqual(rest.flatMap(filesOf).toSorted());
});

test('a run names the slices that it leaves out', () => {
  expect(slicesOf([]).toSorted()).toEqual(slicesOf(undefined).toSorted());
  expect(new Set(slicesOf([])).size).toBe(count);
});

test.each([
  ['what changed is unknown', undefined],
  ['a file is in no row', ['a-new-folder/file.ts']],
])('all slices are run when %s, beginning with the one whose turn it is', (_why, changes) => {
  const { parts, leftOut } = plan(changes, count + 1);
  expect([parts[0]?.title, leftOut]).toEqual([`slice 2 of ${count}`, []]);
  expect(parts.flatMap(({ files }) => files).toSorted()).toEqual(rest.flatMap(filesOf).toSorted());
});

test('a slice takes ten minutes at most, where the files were measured', () => {
  const { parts } = plan(undefined);
  const long = parts.filter(
    ({ seconds, files }) => seconds > MAX_SLICE_SECONDS && files.length > 1,
  );
  expect(long).toEqual([]);
});

test('npm run test:all runs all tiers', () => {
  const { scripts } = JSON.parse(read('package.json'));
  const named = [...scripts['test:all'].matchAll(/--tier=(\w+)/g)].map(([, name]) => name);
  expect(named.toSorted()).toEqual(tiers.map(({ name }) => name).toSorted());
});
