import { execFile } from 'node:child_process';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const execFileAsync = promisify(execFile);
const PAHO = 'paho-mqtt==2.1.0';

/**
 * Makes sure that mosquitto_sub and mosquitto_pub are on PATH; as root on Debian it installs them.
 *
 * @throws when they are missing and can't be installed
 */
export async function ensureMosquitto(): Promise<void> {
  const isThere = await execFileAsync('mosquitto_sub', ['--help']).then(
    () => true,
    (error: { code?: unknown }) => error.code !== 'ENOENT',
  );
  if (isThere) return;
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  await execFileAsync('apt-get', ['update'], { env });
  await execFileAsync(
    'apt-get',
    ['install', '-y', '--no-install-recommends', 'mosquitto-clients'],
    { env },
  );
}

/**
 * Installs Eclipse Paho into a folder of its own in the user's cache, once.
 *
 * @returns the folder, for PYTHONPATH
 * @throws when there is no python3 with pip
 */
export async function ensurePaho(): Promise<string> {
  const folder = join(homedir(), '.cache', 'carillon', PAHO);
  const env = { ...process.env, PYTHONPATH: folder };
  const isThere = await execFileAsync('python3', ['-c', 'import paho.mqtt.client'], { env }).then(
    () => true,
    () => false,
  );
  if (!isThere) {
    await execFileAsync('python3', ['-m', 'pip', 'install', '--quiet', '--target', folder, PAHO]);
  }
  return folder;
}
