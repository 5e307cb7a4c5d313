// `npm start`: everything up to the supervisor, and then its parent.

import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { ensureDependencies } from './dependencies.mjs';
import { endProcesses, findLeftOver, removeTraces } from './left-over.mjs';
import { lockHolder } from './lock.mjs';
import { findMongod } from './mongod.mjs';
import { COMPILED, NODE_24, ROOT } from './places.mjs';
import { checkPorts, withSharedSockets } from './ports.mjs';
import { findRedis } from './redis.mjs';
import { checkStopped } from './run.mjs';
import { Refusal, say, step } from './say.mjs';
import { readSettings } from './settings.mjs';

const FIRST_SHARED_DESCRIPTOR = 4; // after stdin, stdout, stderr and the IPC channel

/** Set-up: gives what the supervisor needs to know. Whatever can be refused is refused early. */
export async function prepareStart() {
  const settings = readSettings(process.env);
  prepareHome(settings.home);
  await endEarlierRun(settings.home);
  await checkPorts(settings);
  await ensureDependencies();
  const redis = settings.redisUrl === undefined ? await findRedis() : undefined;
  const mongod = settings.mongodbUri === undefined ? await findMongod() : undefined;
  checkStopped();
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  return { ...settings, root: ROOT, version, redis, mongod, startedAt: performance.timeOrigin };
}

function prepareHome(home) {
  const probe = join(home, `.probe-${process.pid}`);
  try {
    mkdirSync(home, { recursive: true, mode: 0o700 });
    writeFileSync(probe, '');
    rmSync(probe);
  } catch (error) {
    throw new Refusal(
      `The data folder ${home} can't be written to (${error.code}). Mend its owner and permissions, or choose another with CARILLON_HOME.`,
    );
  }
}

async function endEarlierRun(home) {
  const holder = lockHolder(join(home, 'lock'));
  if (holder !== undefined) {
    throw new Refusal(
      `A stack runs on ${home} already (process ${holder.pid}). Stop it, or start this one on another folder with CARILLON_HOME (and other ports with CARILLON_PORT_BASE).`,
    );
  }
  const left = findLeftOver(home);
  if (left.length > 0) {
    await step('Ending what the last run left behind', () => endProcesses(left));
  }
  // Scripts wait for dev.json: one of a run that was killed would tell them of a stack that is gone.
  removeTraces(home);
}

/**
 * Runs the supervisor with the shared ports opened for it.
 *
 * @returns {Promise<number>} its exit code
 */
export async function runSupervisor(handover) {
  const child = await withSharedSockets(handover, (descriptors) => {
    const names = Object.keys(descriptors);
    const sockets = Object.fromEntries(
      names.map((name, at) => [name, FIRST_SHARED_DESCRIPTOR + at]),
    );
    return spawn(NODE_24, [join(ROOT, 'services/supervisor/src/main.ts')], {
      cwd: ROOT,
      env: {
        ...COMPILED,
        ...process.env,
        CARILLON_HANDOVER: JSON.stringify({ ...handover, sockets }),
      },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc', ...Object.values(descriptors)],
      // Out of reach of the terminal's Ctrl-C, which the bootstrap passes on once.
      detached: true,
    });
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => child.kill(signal));
  }
  const [code, signal] = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (...how) => resolve(how));
  });
  if (signal !== null) {
    say(`The supervisor was ended by ${signal}. What it started is being ended as well.`);
  }
  return code ?? 1;
}
