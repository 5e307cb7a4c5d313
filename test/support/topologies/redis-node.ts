import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePort } from '../../../packages/presence/test/start-server.ts';
import { startProcess, type TestProcess } from '../child-process.ts';
import { until } from '../until.ts';
import type { Security } from './security.ts';

const HOST = '127.0.0.1';
const START_TIMEOUT_MS = 40_000;
const RESPONSE_TIMEOUT_MS = 2_000;

/** A server or a Sentinel of a set, with a port and a folder of its own for as long as the set exists. */
export interface RedisNode {
  /** host:port, as the other nodes and the clients know it. */
  address: string;
  port: number;
  isRunning(): boolean;
  /** Starts it with its data of the last run, and waits until it responds. */
  start(): Promise<void>;
  /** Suspends it with its connections open, and resumes it. */
  freeze(): void;
  thaw(): void;
  /** Kills it (SIGKILL). Harmless if it is not running. */
  kill(): Promise<void>;
  /** Runs commands over a connection of its own. @throws if it does not respond within 2 s */
  run<T>(commands: (redis: Redis) => Promise<T>): Promise<T>;
  /** Kills it and removes its files. */
  remove(): Promise<void>;
}

/** The configuration file of a node, besides its address. The node rewrites the file itself. */
export interface NodeSettings {
  lines: readonly string[];
  /** Arguments after the name of the file. */
  args?: readonly string[];
  /** The node outlives the test file that starts it. */
  isLent?: boolean;
  security?: Security | undefined;
}

/**
 * Creates a node; it is not started yet.
 *
 * @param parent folder in which it gets one of its own
 */
export async function createRedisNode(
  parent: string,
  { lines, args = [], isLent = false, security }: NodeSettings,
): Promise<RedisNode> {
  const port = await freePort();
  const folder = join(parent, `${port}`);
  const file = join(folder, 'redis.conf');
  const ports = security === undefined ? [`port ${port}`] : ['port 0', `tls-port ${port}`];
  const allLines = [
    `bind ${HOST}`,
    ...ports,
    `dir ${folder}`,
    ...(security?.lines ?? []),
    ...lines,
  ];
  await mkdir(folder);
  await writeFile(file, `${allLines.join('\n')}\n`);
  let child: TestProcess | undefined;
  const isRunning = () => child?.isRunning() === true;
  const kill = async () => {
    child?.kill('SIGKILL');
    await child?.exited;
  };
  const run = <T>(commands: (redis: Redis) => Promise<T>) => runRedis(port, security, commands);
  return {
    address: `${HOST}:${port}`,
    port,
    isRunning,
    async start() {
      // `npm test` has found it; a Sentinel is the same program.
      const command = process.env.CARILLON_REDIS_SERVER ?? 'redis-server';
      const output = { file: join(folder, 'log') };
      child = startProcess(command, [file, ...args], { output, isLent });
      const responds = async () => !isRunning() || (await run((redis) => redis.ping())) === 'PONG';
      await until(responds, { timeoutMs: START_TIMEOUT_MS, what: `a Redis on port ${port}` });
      if (!isRunning()) throw new Error(`Redis on port ${port} ended with ${await child.exited}`);
    },
    freeze: () => child?.kill('SIGSTOP'),
    thaw: () => child?.kill('SIGCONT'),
    kill,
    run,
    async remove() {
      await kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function runRedis<T>(
  port: number,
  security: Security | undefined,
  commands: (redis: Redis) => Promise<T>,
): Promise<T> {
  const redis = new Redis(port, HOST, {
    lazyConnect: true,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
    enableReadyCheck: false,
    commandTimeout: RESPONSE_TIMEOUT_MS,
    ...(security && {
      username: security.user,
      password: security.password,
      tls: { ca: security.ca },
    }),
  });
  // The command's own error reports the fault.
  redis.on('error', () => undefined);
  try {
    await redis.connect();
    return await commands(redis);
  } finally {
    redis.disconnect();
  }
}

/** Reads a field of INFO or CLUSTER INFO. */
export function readInfoField(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1];
}

/** Starts all nodes; removes all if one does not start. */
export async function startAll(nodes: readonly RedisNode[]): Promise<void> {
  const started = await Promise.allSettled(nodes.map((node) => node.start()));
  const failed = started.find((result) => result.status === 'rejected');
  if (failed === undefined) return;
  await Promise.all(nodes.map((node) => node.remove()));
  throw failed.reason;
}
