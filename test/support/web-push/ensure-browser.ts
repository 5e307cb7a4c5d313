import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const execFileAsync = promisify(execFile);

/** The browsers that the tests drive, by Debian's names. */
export type BrowserName = 'firefox-esr' | 'chromium';

/**
 * Makes sure that a browser is installed; as root on Debian it installs it.
 *
 * @returns its path
 * @throws when it is missing and can't be installed
 */
export async function ensureBrowser(name: BrowserName): Promise<string> {
  const path = `/usr/bin/${name}`;
  const isThere = await execFileAsync('test', ['-x', path]).then(
    () => true,
    () => false,
  );
  if (isThere) return path;
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  await execFileAsync('apt-get', ['update'], { env });
  await execFileAsync('apt-get', ['install', '-y', '--no-install-recommends', name], { env });
  return path;
}
