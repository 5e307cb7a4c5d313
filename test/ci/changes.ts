import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** Changes of this time are tested together; a commit older than it was tested when it was new. */
const RECENT = '6 hours ago';

/**
 * Lists the files that differ from the newest commit before HEAD that is older than {@link RECENT}, those without a commit
 * included.
 *
 * @param root the repository's folder
 * @returns paths from there; undefined when it can't be told: no git, or no commit that old
 */
export function listRecentChanges(root: string): string[] | undefined {
  try {
    // Of a merge, the first parent is what it was merged into; what HEAD itself has changed is new, whenever it was written.
    const first = ['--first-parent', `--before=${RECENT}`, 'HEAD^'];
    const base = git(root, 'log', '-1', '--format=%H', ...first).trim();
    return base === '' ? undefined : listChangesSince(root, base);
  } catch {
    return undefined;
  }
}

/** Lists the files that differ from a commit. */
export function listChangesSince(root: string, commit: string): string[] {
  const changed = git(root, 'diff', '--name-only', '--no-renames', '-z', commit, '--');
  const added = git(root, 'ls-files', '--others', '--exclude-standard', '-z');
  const paths = [...changed.split('\0'), ...added.split('\0')].filter((path) => path !== '');
  // A removed test file can't be run.
  return paths.filter((path) => !path.endsWith('.test.ts') || existsSync(join(root, path)));
}

/** Counts the commits up to HEAD; 0 without git. */
export function countCommits(root: string): number {
  try {
    return Number(git(root, 'rev-list', '--count', 'HEAD'));
  } catch {
    return 0;
  }
}

function git(root: string, ...args: string[]): string {
  // A container may run as another user than the one who owns the mounted folder.
  const all = ['-c', 'safe.directory=*', ...args];
  return execFileSync('git', all, { cwd: root, stdio: 'pipe', encoding: 'utf8' });
}
