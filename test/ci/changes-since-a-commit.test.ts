import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from '@jest/globals';
import { createTemporaryFolder } from '../support/temporary-folder.ts';
import { countCommits, listRecentChanges } from './changes.ts';

const HOUR_MS = 3_600_000;
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

function git(args: readonly string[], more: Record<string, string> = {}): void {
  const identity = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com'];
  execFileSync('git', [...identity, ...args], { cwd: root, env: { ...ENV, ...more } });
}

/** Writes files and commits them so many hours ago. */
function commit(hoursAgo: number, ...names: string[]): void {
  for (const name of names) writeFileSync(join(root, name), `${hoursAgo}`);
  git(['add', '--all']);
  commitAt(hoursAgo, 'commit', '--quiet', '-m', 'A commit');
}

function commitAt(hoursAgo: number, ...args: string[]): void {
  const date = new Date(Date.now() - hoursAgo * HOUR_MS).toISOString();
  git(args, { GIT_COMMITTER_DATE: date });
}

test('what changed since the newest commit older than six hours is listed', () => {
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
  commitAt(1, 'merge', '--quiet', '--no-ff', '-m', 'A merge', 'topic');
  expect(listRecentChanges(root)).toEqual(['topic.ts']);
});

test('what the newest commit changed is listed, however old it is', () => {
  commit(30, 'a.ts');
  commit(20, 'b.ts');
  expect(listRecentChanges(root)).toEqual(['b.ts']);
});

test('without a commit that old it can’t be told', () => {
  commit(5, 'a.ts');
  expect(listRecentChanges(root)).toBeUndefined();
});

test('without git it can’t be told', () => {
  rmSync(join(root, '.git'), { recursive: true });
  expect(listRecentChanges(root)).toBeUndefined();
  expect(countCommits(root)).toBe(0);
});
