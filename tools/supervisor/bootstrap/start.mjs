// Runs `npm start`: prepares the machine, then runs the supervisor as a child process.

import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { ensureDependencies, isInstalled } from './dependencies.mjs';
import { findLockHolder } from './lock.mjs';
import { checkMissingPrograms } from './missing-programs.mjs';
import { findMongod, hasMongod } from './mongod.mjs';
import { findOrphans, removeStateFiles, stopProcesses } from './orphans.mjs';
import { ensurePages, isBuilt } from './pages.mjs';
import { COMPILE_CACHE_ENV, NODE_24, ROOT } from './paths.mjs';
import { checkPorts, withSharedSockets } from './ports.mjs';
import { findRedis, hasRedis } from './redis.mjs';
import { throwIfInterrupted } from './run.mjs';
import { readSettings } from './settings.mjs';
import { beginSteps, print, runStep, UserError } from './terminal.mjs';
import { countMissingTools } from './tools.mjs';

const FIRST_SHARED_DESCRIPTOR = 4; // after stdin, stdout, stderr and the IPC channel

/** Prepares a start and returns the supervisor's configuration. The cheap checks come first. */
export async function prepareStart() {
  const settings = readSettings(process.env);
  prepareDataDir(settings.home);
  await stopEarlierRun(settings.home);
  await checkPorts(settings);
  await checkMissingPrograms(settings);
  beginSteps(await countSteps(settings));
  await ensureDependencies();
  if (hasConsole(settings)) await ensurePages();
  const redis = settings.redisUrl === undefined ? await findRedis() : undefined;
  const mongod = settings.mongodbUri === undefined ? await findMongod() : undefined;
  throwIfInterrupted();
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  return { ...settings, root: ROOT, version, redis, mongod, startedAt: performance.timeOrigin };
}

/** Counts the steps of the installation that are left. */
async function countSteps(settings) {
  const { redisUrl, mongodbUri } = settings;
  const needed = [
    !isInstalled(),
    hasConsole(settings) && !isBuilt(),
    redisUrl === undefined && !hasRedis(),
    mongodbUri === undefined && !(await hasMongod()),
  ];
  return (isInstalled() ? 0 : countMissingTools()) + needed.filter(Boolean).length;
}

function hasConsole({ services }) {
  return services.some(({ service, count }) => service === 'dashboard' && count > 0);
}

function prepareDataDir(dataDir) {
  const probePath = join(dataDir, `.probe-${process.pid}`);
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    writeFileSync(probePath, '');
    rmSync(probePath);
  } catch (error) {
    if (error.code === 'ENOSPC' || error.code === 'EDQUOT') {
      throw new UserError(`The disk of ${dataDir} is full. Free some space and start again.`);
    }
    throw new UserError(
      `The data folder ${dataDir} is not writable (${error.code}). Fix its owner and permissions, or choose another folder with CARILLON_HOME.`,
    );
  }
}

async function stopEarlierRun(dataDir) {
  const holder = findLockHolder(join(dataDir, 'lock'));
  if (holder !== undefined) {
    throw new UserError(
      `A stack already runs on ${dataDir} (process ${holder.pid}). Stop it, or start this one on another folder with CARILLON_HOME and on other ports with CARILLON_PORT_BASE.`,
    );
  }
  const orphans = findOrphans(dataDir);
  if (orphans.length > 0) {
    await runStep('Stopping processes that the last run left behind', () => stopProcesses(orphans));
  }
  // Scripts wait for dev.json: a file of a killed run would describe a stack that no longer runs.
  removeStateFiles(dataDir);
}

/**
 * Runs the supervisor with the sockets of the shared ports.
 *
 * @returns {Promise<number>} its exit code
 */
export async function runSupervisor(config) {
  print('Starting the servers and the services …');
  const child = await withSharedSockets(config, (descriptors) => {
    const names = Object.keys(descriptors);
    const sockets = Object.fromEntries(
      names.map((name, at) => [name, FIRST_SHARED_DESCRIPTOR + at]),
    );
    return spawn(NODE_24, [join(ROOT, 'tools/supervisor/src/main.ts')], {
      cwd: ROOT,
      env: {
        ...COMPILE_CACHE_ENV,
        ...process.env,
        CARILLON_HANDOVER: JSON.stringify({ ...config, sockets }),
      },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc', ...Object.values(descriptors)],
      // Its own process group: the bootstrap forwards the terminal's Ctrl-C exactly once.
      detached: true,
    });
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => child.kill(signal));
  }
  const [code, signal] = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (...exit) => resolve(exit));
  });
  if (signal !== null) {
    print(`The supervisor was killed by ${signal}. Its processes are being stopped.`);
  }
  return code ?? 1;
}
