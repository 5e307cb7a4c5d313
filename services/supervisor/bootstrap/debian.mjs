// System packages, where they can be had without asking: Debian and Ubuntu, as root.

import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { withLock } from './lock.mjs';
import { findProgram } from './places.mjs';
import { lastLines, run } from './run.mjs';
import { Refusal, step } from './say.mjs';

const POLICY = '/usr/sbin/policy-rc.d';
const OUR_POLICY = '#!/bin/sh\n# Written by Carillon for the time of one installation.\nexit 101\n';
const WAIT_FOR_APT = ['-o', 'DPkg::Lock::Timeout=300'];
const ENVIRONMENT = { DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };

/** Can this process install system packages? */
export function canInstallPackages() {
  return process.getuid?.() === 0 && findProgram('apt-get') !== undefined;
}

/**
 * Installs system packages and starts none of the daemons that they bring.
 *
 * @param {readonly string[]} packages
 * @throws {Refusal} with apt's last words
 */
export function installPackages(...packages) {
  return withLock('/var/tmp/carillon-apt.lock', 'installs system packages', () =>
    step(`Installing ${packages.join(', ')} (apt-get)`, async () => {
      const install = ['install', '-y', '--no-install-recommends', ...WAIT_FOR_APT, ...packages];
      await apt(['update', ...WAIT_FOR_APT]);
      // Downloading may be cut off at any time; the unpacking after it must not be.
      await apt([...install, '--download-only']);
      await withoutDaemons(() => apt(install, true));
    }),
  );
}

async function apt(args, unbreakable = false) {
  const done = await run('apt-get', ['-q', ...args], { env: ENVIRONMENT, unbreakable });
  if (!done.ok) throw new Refusal(`apt-get ${args[0]} failed:\n${lastLines(done.output)}`);
}

// Debian asks this file before it starts a freshly installed daemon (invoke-rc.d(8)).
async function withoutDaemons(work) {
  const ours = !existsSync(POLICY) || readFileSync(POLICY, 'utf8') === OUR_POLICY;
  if (ours) writeFileSync(POLICY, OUR_POLICY, { mode: 0o755 });
  try {
    await work();
  } finally {
    if (ours) rmSync(POLICY, { force: true });
  }
}
