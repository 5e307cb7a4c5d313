import { closeSync, fsyncSync, openSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeRedisUrl, parseRedisUrl, type RedisTarget } from '@carillon/core/redis-url';
import { UserError } from '../bootstrap/terminal.mjs';
import { type BootstrapConfig, formatUrl } from './bootstrap-config.ts';
import { createWriteError, type DataDir, diskFullHint, isDiskFull } from './data-dir.ts';
import { isAcceptingConnections, isRedisReady, isRedisServer } from './probes.ts';
import { findHint } from './start-failure-hints.ts';
import { type ProcessSpec, pickVariables } from './supervised-process.ts';

const DATABASE = 'carillon';
const CACHE_GB = '0.5';
/**
 * Interval of MongoDB's journal commits: the longest that it accepts, because its default wakes an idle server ten
 * times a second.
 */
const JOURNAL_COMMIT_MS = '500';

/** File in MongoDB's folder that exists from before the first start until the first migration is done. */
const UNFINISHED_MARKER = 'unfinished-first-start';
const MARKER_TEXT =
  'The first start on this folder is not finished. If it is interrupted, the next start deletes these files and begins again.\n';

/** Addresses of Redis and MongoDB, and the processes of those that the stack runs itself. */
export interface DataServers {
  redisUrl: string;
  mongodbUri: string;
  /** Data folder of MongoDB, if the stack runs it. */
  mongodbFolder?: string;
  specs: ProcessSpec[];
}

/** Builds the process specs of Redis and MongoDB. Starts nothing. */
export function createDataServers(config: BootstrapConfig, dataDir: DataDir): DataServers {
  const { privateHost: host, ports } = config;
  const buildSpec = (
    service: 'redis' | 'mongodb',
    command: string,
    args: readonly string[],
    isReady: () => Promise<boolean>,
  ): ProcessSpec => {
    const cwd = dataDir.resolvePath(service);
    const logPath = dataDir.openLog(`${service}-0`);
    return {
      ...{ service, index: 0, command, args, cwd, logPath, isReady },
      env: pickVariables(process.env, ['PATH', 'HOME', 'TZ', 'LANG']),
      exitWithParent: false,
      maxStartAttempts: 1,
      hint: () => findHint(service, cwd, logPath),
      findFatalCause: () => (isDiskFull(dataDir.path) ? diskFullHint(dataDir.path) : undefined),
    };
  };
  const specs: ProcessSpec[] = [];
  if (config.redis !== undefined) {
    const args = redisArgs(host, ports.redis, dataDir.resolvePath('redis'));
    const isReady = () => isRedisReady(host, ports.redis);
    specs.push(buildSpec('redis', config.redis.path, args, isReady));
  }
  if (config.mongod !== undefined) {
    const args = mongodArgs(host, ports.mongodb, dataDir.resolvePath('mongodb'));
    const isReady = () => isAcceptingConnections(host, ports.mongodb);
    specs.push(buildSpec('mongodb', config.mongod.path, args, isReady));
  }
  return {
    specs,
    ...(config.mongod !== undefined && { mongodbFolder: dataDir.resolvePath('mongodb') }),
    redisUrl: config.redisUrl ?? formatUrl('redis', host, ports.redis),
    mongodbUri: config.mongodbUri ?? `${formatUrl('mongodb', host, ports.mongodb)}/${DATABASE}`,
  };
}

function redisArgs(host: string, port: number, dir: string): string[] {
  const options = {
    bind: host,
    port: String(port),
    dir,
    appendonly: 'yes',
    appendfsync: 'everysec',
    save: '',
    'maxmemory-policy': 'noeviction',
    daemonize: 'no',
  };
  return Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
}

function mongodArgs(host: string, port: number, dbpath: string): string[] {
  const address = ['--port', String(port), '--bind_ip', host, '--nounixsocket'];
  const ipv6 = host.includes(':') ? ['--ipv6'] : [];
  // MongoDB's diagnostic recorder runs every second and keeps up to 200 MB, which nothing here reads.
  const diagnostics = ['--setParameter', 'diagnosticDataCollectionEnabled=false'];
  const cache = ['--wiredTigerCacheSizeGB', CACHE_GB];
  // A journaled write has the journal written at once. Only claims and their like wait for the next time, and may be lost.
  const journal = ['--journalCommitInterval', JOURNAL_COMMIT_MS];
  return ['--dbpath', dbpath, ...address, ...ipv6, ...cache, ...journal, ...diagnostics, '--quiet'];
}

/**
 * Checks that the Redis of REDIS_URL can be reached, or one of its Sentinels or nodes. (The migration checks MongoDB.)
 * @throws {UserError} when the address is wrong, or no Redis replies; with TLS, when nothing accepts connections
 */
export async function checkConfiguredRedis(config: BootstrapConfig): Promise<void> {
  if (config.redisUrl === undefined) return;
  const { hosts, isTls } = parseTarget(config.redisUrl);
  const isReachable = isTls ? isAcceptingConnections : isRedisServer;
  const replies = await Promise.all(hosts.map(({ host, port }) => isReachable(host, port)));
  if (replies.includes(true)) return;
  throw new UserError(
    `No Redis replies at ${describeRedisUrl(config.redisUrl)} (from REDIS_URL). Start it, or unset REDIS_URL.`,
  );
}

function parseTarget(url: string): RedisTarget {
  try {
    return parseRedisUrl(url);
  } catch (error) {
    throw new UserError(`REDIS_URL is wrong: ${(error as Error).message}.`);
  }
}

/**
 * Prepares MongoDB's folder for a start: deletes the files of an unfinished first start. A mongod that is killed while
 * it creates its first files leaves a folder that it can't open again, and nothing has been stored in it yet.
 *
 * No server may be running on the folder. Does nothing without a folder (an external MongoDB).
 */
export function beginFirstSetUp(folder: string | undefined): void {
  if (folder === undefined) return;
  const names = readdirSync(folder);
  const isUnfinished = names.includes(UNFINISHED_MARKER);
  if (names.length > 0 && !isUnfinished) return;
  try {
    // The marker stays: a start that is interrupted here is unfinished as well.
    for (const name of names.filter((one) => one !== UNFINISHED_MARKER)) {
      rmSync(join(folder, name), { recursive: true });
    }
    writeFileSync(join(folder, UNFINISHED_MARKER), MARKER_TEXT);
    fsyncPath(join(folder, UNFINISHED_MARKER));
    fsyncPath(folder);
  } catch (error) {
    throw createWriteError(folder, error);
  }
}

/**
 * Removes the marker: from now on the folder's files are kept. Called after the server has confirmed its first
 * journaled write and before any user data is stored.
 */
export function endFirstSetUp(folder: string | undefined): void {
  if (folder === undefined) return;
  rmSync(join(folder, UNFINISHED_MARKER), { force: true });
  // If a power failure undid only this removal, the next start would delete real data.
  fsyncPath(folder);
}

function fsyncPath(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
