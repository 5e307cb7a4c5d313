import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startScript } from '../stack.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const FILE = 'test/operators/previous-release';
const INSTALL_TIMEOUT_MS = 240_000;

const execute = promisify(execFile);

/** A folder with the previous release, its dependencies installed. */
export interface PreviousRelease {
  root: string;
  remove(): Promise<void>;
}

async function git(...args: string[]): Promise<string> {
  return (await execute('git', ['-C', ROOT, ...args])).stdout.trim();
}

/**
 * Reads the commit of the previous release and fetches it into a shallow clone.
 *
 * @throws an error with the reason why the test can't run here
 */
async function findCommit(): Promise<string> {
  const commit = readFileSync(join(ROOT, FILE), 'utf8').trim();
  const has = async () => (await git('cat-file', '-t', commit).catch(() => '')) === 'commit';
  if (await has()) {
    await git('merge-base', '--is-ancestor', commit, 'HEAD').catch(async (error: unknown) => {
      // In a shallow clone the way from HEAD to it is unknown.
      if (await isShallow()) return;
      throw new Error(`${commit} in ${FILE} is not an ancestor of HEAD`, { cause: error });
    });
    return commit;
  }
  if (!(await isShallow())) {
    throw new Error(`${FILE} names ${commit}, which this repository does not have`);
  }
  await git('fetch', '--depth=1', 'origin', commit).catch(() => undefined);
  if (await has()) return commit;
  throw new Error(
    `this is a shallow clone without the previous release, and its remote does not give ${commit}: clone with the full history (git fetch --unshallow)`,
  );
}

async function isShallow(): Promise<boolean> {
  return (await git('rev-parse', '--is-shallow-repository')) === 'true';
}

/** Checks the previous release out into a temporary folder and installs its dependencies by its own bootstrap. */
export async function checkOutPreviousRelease(): Promise<PreviousRelease> {
  const commit = await findCommit();
  const folder = await mkdtemp(join(tmpdir(), 'carillon-previous-'));
  const root = join(folder, 'release');
  const archive = join(folder, 'release.tar');
  await mkdir(root);
  await git('archive', '--format=tar', '-o', archive, commit);
  await execute('tar', ['-xf', archive, '-C', root]);
  await execute(process.execPath, [startScript(root), 'carillon', '--help'], {
    cwd: root,
    timeout: INSTALL_TIMEOUT_MS,
  });
  return { root, remove: () => rm(folder, { recursive: true, force: true }) };
}
