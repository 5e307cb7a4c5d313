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
  git('init', '--quiet');
});

function git(...args: string[]): void {
  const identity = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com'];
  execFileSync('git', [...identity, ...args], { cwd: root });
}

/** Writes files and commits them so many hours ago. */
function commit(hoursAgo: number, ...names: string[]): void {
  for (const name of names) writeFileSync(join(root, name), `${hoursAgo}`);
  git('add', '--all');
  const date = new Date(Date.now() - hoursAgo * HOUR_MS).toISOString();
  const env = { ...process.env, GIT_COMMITTER_DATE: date };
  const identity = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com'];
  execFileSync('git', [...identity, 'commit', '--quiet', '-m', 'A commit'], { cwd: root, env });
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

test('without a commit that old it can’t be told', () => {
  commit(5, 'a.ts');
  expect(listRecentChanges(root)).toBeUndefined();
});

test('without git it can’t be told', () => {
  rmSync(join(root, '.git'), { recursive: true });
  expect(listRecentChanges(root)).toBeUndefined();
  expect(countCommits(root)).toBe(0);
});
