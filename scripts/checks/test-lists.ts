import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { FAILPOINTS } from '../../packages/core/src/failpoint.ts';
import { findConcerned, findUnusedRows } from '../../test/support/jest/concerned.ts';
import { filesOf, readTiers, type Tier } from '../../test/support/jest/tiers.ts';
import { ONE_MONGODB_ONLY } from '../../test/support/topologies/one-mongodb-only.ts';
import { ONE_REDIS_ONLY } from '../../test/support/topologies/one-redis-only.ts';
import { compare, findFiles, readText } from './files.ts';

/** Calls that start a stack, or wait for one. */
const STARTERS =
  /\bstartStack\b|\bstartUnlimited\b|\buse(SharedStack|SharedProviders|KillableStack)\b|\bcreateTestHome\b/;

/** Checks the lists of test files, of tiers and of failpoints. */
export function checkTestLists(root: string): string[] {
  const tiers = readTiers(root);
  const files = tiers.flatMap(filesOf).sort();
  const all = findFiles(root, '**/*.test.ts').filter((path) => !path.startsWith('.carillon/'));
  const oneServerOnly = Object.keys({ ...ONE_MONGODB_ONLY, ...ONE_REDIS_ONLY });
  return [
    ...compare('test files of the tiers', files, all),
    ...tiers
      .filter((tier) => filesOf(tier).length === 0)
      .map(({ name }) => `the tier ${name} has no files`),
    ...oneServerOnly
      .filter((path) => !files.includes(path))
      .map((path) => `the lists of one server only name ${path}, which does not exist`),
    ...checkStacks(root, tiers),
    ...checkFailpoints(root),
    ...checkChanges(root, tiers),
  ];
}

/** Checks that no file of `fast` starts a stack. */
function checkStacks(root: string, tiers: readonly Tier[]): string[] {
  const fast = tiers.filter(({ name }) => name === 'fast').flatMap(filesOf);
  return fast
    .filter((path) => STARTERS.test(readText(root, path)))
    .map((path) => `${path} of the tier fast starts a stack`);
}

/** Checks that a test of a running service kills it at each failpoint. */
function checkFailpoints(root: string): string[] {
  const tests = findFiles(root, 'test/{faults,providers}/*.test.ts');
  const text = tests.map((path) => readText(root, path)).join('\n');
  const armed = [...text.matchAll(/['"`,]([a-z-]+):(?:kill|\$\{)/g)].map(([, name]) => name);
  return Object.keys(FAILPOINTS)
    .filter((name) => !armed.includes(name))
    .map((name) => `no test kills a service at the failpoint ${name}`);
}

/** Checks that the table of changes has a row for each file, and no other, and that all tiers are run. */
function checkChanges(root: string, tiers: readonly Tier[]): string[] {
  const paths = listOwnFiles(root);
  const { tiers: concerned } = findConcerned(paths) ?? { tiers: new Map<string, string>() };
  const { scripts } = JSON.parse(readText(root, 'package.json')) as {
    scripts: Record<string, string>;
  };
  const named = [...(scripts['test:all'] ?? '').matchAll(/--tier=(\w+)/g)];
  const names = tiers.map(({ name }) => name);
  return [
    ...paths
      .filter((path) => findConcerned([path]) === undefined)
      .map((path) => `test/support/jest/concerned.ts has no row for ${path}`),
    ...findUnusedRows(paths).map((row) => `test/support/jest/concerned.ts: no file is in ${row}`),
    ...names
      .filter((name) => !['fast', 'stack'].includes(name) && !concerned.has(name))
      .map((name) => `test/support/jest/concerned.ts never runs the tier ${name}`),
    ...compare('npm run test:all', named.map(([, name = '']) => name).sort(), names.sort()),
  ];
}

function listOwnFiles(root: string): string[] {
  const args = ['-c', 'safe.directory=*', 'ls-files', '-z'];
  const paths = execFileSync('git', args, { cwd: root, encoding: 'utf8' }).split('\0');
  return paths.filter((path) => path !== '' && existsSync(join(root, path)));
}
