import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const TOOLS = ['buildah', 'podman', 'runc', 'mmdebstrap'];
const PROBE_TIMEOUT_MS = 60_000;
const SETTINGS = [
  '[containers]',
  'default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]',
  '[network]',
  'network_backend = "netavark"',
  '',
];

/**
 * Returns why the tests can't build and run images here: no root, a missing program (`.ci/install` installs them), or a
 * machine that can run no container, which one container with a limit of memory shows.
 *
 * @returns {string | undefined} undefined: they can
 */
export function whyNoContainers() {
  if (process.getuid?.() !== 0) return 'no root here';
  const missing = TOOLS.filter((tool) => spawnSync(tool, ['--version']).status !== 0);
  if (missing.length > 0) return `no ${missing.join(', ')} here`;
  // podman takes no folder of more than 50 characters.
  const folder = mkdtempSync(join(tmpdir(), 'probe-'));
  try {
    const settings = join(folder, 'containers.conf');
    writeFileSync(settings, SETTINGS.join('\n'));
    const folders = ['root', 'runroot', 'tmpdir'].flatMap((name) => [
      `--${name}`,
      join(folder, name),
    ]);
    const managers = ['--runtime', 'runc', '--cgroup-manager', 'cgroupfs'];
    const container = ['run', '--rm', '--memory', '64m', '--rootfs', '/:O', '/bin/true'];
    const { status, stderr } = spawnSync(
      'podman',
      [...folders, ...managers, '--events-backend', 'file', ...container],
      { env: { ...process.env, CONTAINERS_CONF: settings }, timeout: PROBE_TIMEOUT_MS },
    );
    return status === 0 ? undefined : `podman runs no container here: ${stderr}`;
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}
