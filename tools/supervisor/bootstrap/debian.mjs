// Installs system packages without a prompt: on Debian and Ubuntu, as root.

import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { withLock } from './lock.mjs';
import { findProgram } from './paths.mjs';
import { lastLines, run } from './run.mjs';
import { runStep, UserError } from './terminal.mjs';

const POLICY_PATH = '/usr/sbin/policy-rc.d';
const POLICY_SCRIPT =
  '#!/bin/sh\n# Written by Carillon during one installation, removed after it.\nexit 101\n';
const WAIT_FOR_APT = ['-o', 'DPkg::Lock::Timeout=300'];
const ENVIRONMENT = { DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };

/** Checks whether this process can install system packages. */
export function canInstallPackages() {
  return process.getuid?.() === 0 && findProgram('apt-get') !== undefined;
}

/**
 * Installs system packages without starting the daemons that they contain.
 *
 * @param {readonly string[]} packages
 * @throws {UserError} with the last lines that apt-get printed
 */
export function installPackages(...packages) {
  return withLock('/var/tmp/carillon-apt.lock', 'installs system packages', () =>
    runStep(`Installing ${packages.join(', ')} (apt-get)`, async (report) => {
      const install = ['install', '-y', '--no-install-recommends', ...WAIT_FOR_APT, ...packages];
      report('updating the lists of packages');
      await apt(['update', ...WAIT_FOR_APT]);
      report('downloading');
      // The download may be interrupted at any time; unpacking must not be.
      await apt([...install, '--download-only']);
      report('unpacking');
      await withoutDaemons(() => apt(install, true));
    }),
  );
}

async function apt(args, unbreakable = false) {
  const result = await run('apt-get', ['-q', ...args], { env: ENVIRONMENT, unbreakable });
  if (!result.ok) throw new UserError(`apt-get ${args[0]} failed:\n${lastLines(result.output)}`);
}

// Debian runs this script before it starts a newly installed daemon (invoke-rc.d(8)).
async function withoutDaemons(action) {
  const isOurs = !existsSync(POLICY_PATH) || readFileSync(POLICY_PATH, 'utf8') === POLICY_SCRIPT;
  if (isOurs) writeFileSync(POLICY_PATH, POLICY_SCRIPT, { mode: 0o755 });
  try {
    await action();
  } finally {
    if (isOurs) rmSync(POLICY_PATH, { force: true });
  }
}
