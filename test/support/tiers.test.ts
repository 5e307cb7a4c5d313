import { existsSync, globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { filesOf, readTiers } from './jest/tiers.ts';
import { ONE_MONGODB_ONLY } from './topologies/one-mongodb-only.ts';
import { ONE_REDIS_ONLY } from './topologies/one-redis-only.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const tiers = readTiers(ROOT);
const files = tiers.flatMap(filesOf);

test('every test file is in exactly one tier', () => {
  const isOfOthers = (path: string) => path.includes('node_modules') || path === '.carillon';
  const all = globSync('**/*.test.ts', { cwd: ROOT, exclude: isOfOthers });
  expect(files.toSorted()).toEqual(all.toSorted());
});

test.each(tiers)('the tier $name has files, and all of them exist', (tier) => {
  const own = filesOf(tier);
  expect(own).not.toEqual([]);
  expect(own.filter((path) => !existsSync(`${ROOT}/${path}`))).toEqual([]);
});

/** Contains the text that it searches for. */
const SELF = 'test/support/tiers.test.ts';
const textOf = (path: string) => readFileSync(`${ROOT}/${path}`, 'utf8');

test('the files that run on one MongoDB or one Redis only exist', () => {
  const named = Object.keys({ ...ONE_MONGODB_ONLY, ...ONE_REDIS_ONLY });
  expect(named.filter((path) => !files.includes(path))).toEqual([]);
});

const fast = tiers.filter(({ name }) => name === 'fast').flatMap(filesOf);

test('a file of the tier fast starts no stack', () => {
  const starters =
    /\bstartStack\b|\bstartUnlimited\b|\buseShared(Stack|Providers)\b|\bcreateTestHome\b/;
  const found = fast.filter((path) => path !== SELF && starters.test(textOf(path)));
  expect(found).toEqual([]);
});
