import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writePodmanFiles } from './engine.ts';

const TOOLS = ['buildah', 'podman', 'runc', 'mmdebstrap'];
const CONTAINER = ['run', '--rm', '--memory', '64m', '--rootfs', '/:O', '/bin/true'];

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
    const env = writePodmanFiles(folder, [
      '--root',
      `${folder}/root`,
      '--runroot',
      `${folder}/run`,
    ]);
    const { status, stderr } = spawnSync(join(folder, 'podman'), CONTAINER, {
      env,
      timeout: 60_000,
    });
    return status === 0 ? undefined : `podman runs no container here: ${stderr}`;
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}
