// Runs the commands of the bootstrap: start, dev, test and carillon.

import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';
import { ensureDependencies } from './dependencies.mjs';
import { MALLOC_SETTINGS } from './malloc.mjs';
import { findMongod } from './mongod.mjs';
import { COMPILE_CACHE_ENV, NODE_24, ROOT } from './paths.mjs';
import { findRedis } from './redis.mjs';
import { interruptSetUpOnSignals } from './run.mjs';
import { prepareStart, runSupervisor } from './start.mjs';
import { UserError } from './terminal.mjs';
import { beginTestRun } from './test-run.mjs';

const TIER = '--tier=';
/**
 * `--topology cluster` runs the tests' stacks on a Redis Cluster, `--topology sentinel` on a Sentinel set, and
 * `--topology replica-set` on a MongoDB of three members.
 */
const TOPOLOGY = '--topology';
const TOPOLOGIES = ['cluster', 'sentinel', 'replica-set'];
/**
 * V8's heap sizes for the command line. Without them V8 derives its own from the machine's memory and collects garbage
 * late.
 */
const COMMAND_LINE_FLAGS = ['--max-semi-space-size=2', '--max-old-space-size=1024'];
const EVERY_DAY = ['fast', 'stack'];
const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/**
 * Runs one command of the bootstrap.
 *
 * @param {'start' | 'dev' | 'test' | 'carillon'} command
 * @param {readonly string[]} args
 * @returns {Promise<number>} the exit code
 */
export async function runCommand(command, args) {
  if (command === 'start' || command === 'dev') {
    return runSupervisor({ ...(await setUp(prepareStart)), reload: command === 'dev' });
  }
  if (command === 'test') return runTests(args);
  await setUp(ensureDependencies);
  const main = join(ROOT, 'services/cli/src/main.ts');
  return runInTerminal([...COMMAND_LINE_FLAGS, main, ...args], {
    ...COMPILE_CACHE_ENV,
    ...MALLOC_SETTINGS,
  });
}

async function setUp(action) {
  const release = interruptSetUpOnSignals();
  try {
    return await action();
  } finally {
    release();
  }
}

async function runTests(allArgs) {
  const { topology, args } = takeTopology(allArgs);
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
  return runJest([...jest, ...toJestArgs(args)], {
    ...COMPILE_CACHE_ENV,
    CARILLON_REDIS_SERVER: binaries.redis.path,
    CARILLON_MONGOD: binaries.mongod.path,
    ...(topology !== undefined && { CARILLON_TEST_TOPOLOGY: topology }),
  });
}

/** Runs Jest. Neither an interrupted run nor a failed one leaves a process. */
async function runJest(args, env) {
  const testRun = beginTestRun();
  let stopped;
  const onSignal = () => {
    stopped ??= testRun.stop();
  };
  for (const signal of STOP_SIGNALS) process.on(signal, onSignal);
  const code = await exitCodeOf(startNode(args, { ...env, ...testRun.env }));
  await stopped;
  if (stopped !== undefined) return code === 0 ? 1 : code;
  const left = await testRun.end(code !== 0);
  for (const command of left) process.stderr.write(`The tests left this running: ${command}\n`);
  return code;
}

/** Takes `--topology NAME`, or `--topology=NAME`, from the arguments. */
function takeTopology(args) {
  const at = args.findIndex((arg) => arg === TOPOLOGY || arg.startsWith(`${TOPOLOGY}=`));
  if (at < 0) return { topology: undefined, args };
  const isSplit = args[at] === TOPOLOGY;
  const topology = isSplit ? args[at + 1] : args[at].slice(TOPOLOGY.length + 1);
  if (!TOPOLOGIES.includes(topology)) {
    throw new UserError(`Write ${TOPOLOGY} ${TOPOLOGIES.join(` or ${TOPOLOGY} `)}.`);
  }
  return { topology, args: [...args.slice(0, at), ...args.slice(at + (isSplit ? 2 : 1))] };
}

/**
 * Converts `--tier=NAME` to Jest's option. Without one, and without a path, the everyday tests are run: a path selects
 * its tests itself. With a path, `--watch` runs them at the start too, changed or not.
 */
function toJestArgs(args) {
  const named = args.filter((arg) => arg.startsWith(TIER)).map((arg) => arg.slice(TIER.length));
  const others = args.filter((arg) => !arg.startsWith(TIER));
  if (named.length > 0) return [...others, '--selectProjects', ...named];
  const hasPath = others.some((arg) => !arg.startsWith('-'));
  if (!hasPath) return [...others, '--selectProjects', ...EVERY_DAY];
  return others.map((arg) => (arg === '--watch' ? '--watchAll' : arg));
}

async function runInTerminal(args, env) {
  const child = startNode(args, env);
  const forwarded = ['SIGTERM', 'SIGHUP'];
  for (const signal of forwarded) process.on(signal, () => child.kill(signal));
  // In a terminal, Ctrl-C already signals the whole foreground process group.
  process.on('SIGINT', () => process.stdin.isTTY || child.kill('SIGINT'));
  return exitCodeOf(child);
}

function startNode(args, env) {
  return spawn(NODE_24, args, { env: { ...process.env, ...env }, stdio: 'inherit' });
}

/** Waits for a child's exit. @returns its code, or for a signal what a shell gives */
function exitCodeOf(child) {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) =>
      resolve(signal === null ? (code ?? 1) : 128 + constants.signals[signal]),
    );
  });
}
