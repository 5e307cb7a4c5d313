// The three commands.

import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';
import { ensureDependencies } from './dependencies.mjs';
import { findMongod } from './mongod.mjs';
import { COMPILED, NODE_24, ROOT } from './places.mjs';
import { findRedis } from './redis.mjs';
import { stopSetUpOnSignals } from './run.mjs';
import { prepareStart, runSupervisor } from './start.mjs';

/**
 * Runs one command of the bootstrap.
 *
 * @param {'start' | 'test' | 'carillon'} command
 * @param {readonly string[]} args
 * @returns {Promise<number>} the exit code
 */
export async function runCommand(command, args) {
  if (command === 'start') return runSupervisor(await setUp(prepareStart));
  if (command === 'test') return runTests(args);
  await setUp(ensureDependencies);
  return runInTerminal([join(ROOT, 'services/cli/src/main.ts'), ...args], COMPILED);
}

async function setUp(work) {
  const release = stopSetUpOnSignals();
  try {
    return await work();
  } finally {
    release();
  }
}

async function runTests(args) {
  const binaries = await setUp(async () => {
    await ensureDependencies();
    return { redis: await findRedis(), mongod: await findMongod() };
  });
  const jest = [
    '--experimental-vm-modules',
    '--disable-warning=ExperimentalWarning',
    join(ROOT, 'node_modules/jest/bin/jest.js'),
    '--config',
    join(ROOT, 'test/jest.config.mjs'),
  ];
  return runInTerminal([...jest, ...args], {
    CARILLON_REDIS_SERVER: binaries.redis.path,
    CARILLON_MONGOD: binaries.mongod.path,
  });
}

async function runInTerminal(args, env = {}) {
  const child = spawn(NODE_24, args, { env: { ...process.env, ...env }, stdio: 'inherit' });
  const forwarded = ['SIGTERM', 'SIGHUP'];
  for (const signal of forwarded) process.on(signal, () => child.kill(signal));
  // In a terminal Ctrl-C reaches the child by itself.
  process.on('SIGINT', () => process.stdin.isTTY || child.kill('SIGINT'));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) =>
      resolve(signal === null ? (code ?? 1) : 128 + constants.signals[signal]),
    );
  });
}
