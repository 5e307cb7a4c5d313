import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { listRemedies } from '../../tools/supervisor/bootstrap/install-commands.mjs';
import { ROOT } from '../support/first-run/test-home.ts';
import { freePortBase } from '../support/stack/port-block.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

const BOOTSTRAP = join(ROOT, 'tools/supervisor/bootstrap');
const LINUX = { platform: 'linux', arch: 'x64', hasGlibc: true };
const MAC = { platform: 'darwin', arch: 'arm64', hasGlibc: false };

describe('the remedy', () => {
  test.each([
    [{ ...MAC, manager: 'brew' }, 'redis', 'Redis: brew install redis '],
    [{ ...LINUX, manager: 'apt-get' }, 'redis', 'Redis: sudo apt-get install redis-server '],
    [{ ...LINUX, manager: 'dnf' }, 'redis', 'Redis: sudo dnf install valkey '],
    [{ ...LINUX, manager: 'pacman' }, 'redis', 'Redis: sudo pacman -S valkey '],
    [{ ...LINUX, manager: 'zypper' }, 'redis', 'Redis: sudo zypper install redis '],
    [{ ...LINUX, manager: undefined }, 'redis', 'from the package manager of this system'],
    [{ ...LINUX, manager: 'apt-get' }, 'libcurl', 'sudo apt-get install libcurl4'],
    [{ ...LINUX, manager: 'apt-get' }, 'npm', 'npm: sudo apt-get install npm'],
    [{ ...MAC, manager: 'brew' }, 'mongodb', 'brew tap mongodb/brew && '],
    [{ ...LINUX, manager: 'dnf' }, 'mongodb', 'docker run -d -p 127.0.0.1:27017:27017 mongo:8'],
  ] as const)('on %o without %s', (machine, missing, remedy) => {
    expect(listRemedies({ ...machine, missing: [missing] })).toEqual([
      expect.stringContaining(remedy),
    ]);
  });

  test.each([
    [{ platform: 'win32', arch: 'x64', hasGlibc: false }, 'wsl --install'],
    [{ ...LINUX, hasGlibc: false }, 'glibc'],
    [{ ...LINUX, arch: 'riscv64' }, 'linux riscv64'],
  ])('on %o is another way to run it, whatever is missing', (machine, remedy) => {
    const missing = ['redis', 'mongodb'] as const;
    expect(listRemedies({ ...machine, manager: undefined, missing })).toEqual([
      expect.stringContaining(remedy),
    ]);
  });
});

test('a start of a user who can install nothing names all that is missing, and downloads nothing', async () => {
  const folder = createTemporaryFolder();
  symlinkSync(process.execPath, join(folder, 'node'));
  writeFileSync(join(folder, 'dnf'), '', { mode: 0o755 });
  const cache = join(folder, 'cache');
  const { status, stderr } = spawnSync(process.execPath, [`${BOOTSTRAP}.mjs`, 'start'], {
    cwd: ROOT,
    encoding: 'utf8',
    env: {
      // Without apt-get, root is such a user too.
      ...{ PATH: folder, HOME: folder, XDG_CACHE_HOME: cache, CARILLON_HOME: join(folder, 'home') },
      CARILLON_PORT_BASE: String(await freePortBase('127.0.0.1')),
      // Has no address (RFC 6761).
      CARILLON_MONGODB_MIRROR: 'https://mirror.invalid',
    },
  });
  expect({ status, lines: stderr.trim().split('\n') }).toEqual({
    status: 1,
    lines: [
      'This machine lacks something. Install it and run the command again:',
      '  npm: sudo dnf install npm',
      expect.stringMatching(/^ {2}Redis: sudo dnf install valkey \(or .*REDIS_URL=/),
      expect.stringMatching(/^ {2}MongoDB, .*docker run/),
    ],
  });
  expect(existsSync(cache)).toBe(false);
});

test('a step shows its place and its progress every few seconds', () => {
  const script = `
    import { mock } from 'node:test';
    import { beginSteps, runStep } from ${JSON.stringify(join(BOOTSTRAP, 'terminal.mjs'))};
    mock.timers.enable({ apis: ['setInterval', 'Date'] });
    beginSteps(2);
    await runStep('First', async () => undefined);
    await runStep('Second', async (report) => {
      report('1 of 2 MB (50 %)');
      mock.timers.tick(4_999);
      report('2 of 2 MB (100 %)');
      mock.timers.tick(1);
    });`;
  const args = ['--input-type=module', '-e', `${script}`];
  const output = execFileSync('/bin/sh', ['-c', 'exec "$0" "$@" 2>&1', process.execPath, ...args]);
  expect(output.toString().trim().split('\n')).toEqual([
    'Installing what is missing: 2 steps.',
    '[1/2] First …',
    '[2/2] Second …',
    '[2/2] Second … 2 of 2 MB (100 %), 5 s',
  ]);
});
