import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { createConnection, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../until.ts';

const HOST = '127.0.0.1';

/** A Redis server that a test may take away and bring back, empty or as it was. */
export interface RedisServer {
  url: string;
  port: number;
  start(): Promise<void>;
  /** Stops it in its tracks, its connections open, and lets it go on. */
  freeze(): void;
  thaw(): void;
  /** Kills it without a word. */
  kill(): Promise<void>;
  /** Does some work, then kills the server and starts it with the data from before: its last seconds are lost. */
  restoreAfter(task: () => Promise<void>): Promise<void>;
  /** Kills it and removes its data. */
  remove(): Promise<void>;
}

/** Makes a server of its own on a free port; it is not started yet. */
export async function createRedisServer(): Promise<RedisServer> {
  const folder = await mkdtemp(join(tmpdir(), 'carillon-redis-'));
  const dir = join(folder, 'data');
  await mkdir(dir);
  const port = await freePort();
  let child: ChildProcess | undefined;
  const kill = async () => {
    if (child === undefined) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
    child = undefined;
  };
  const start = async () => {
    const args = ['--bind', HOST, '--port', String(port), '--dir', dir, '--appendonly', 'yes'];
    const server = process.env.CARILLON_REDIS_SERVER ?? 'redis-server';
    child = spawn(server, args, { stdio: 'ignore' });
    await until(() => canConnect(port), { what: 'a Redis server' });
  };
  return {
    url: `redis://${HOST}:${port}`,
    port,
    start,
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
    kill,
    async restoreAfter(task) {
      const before = join(folder, 'before');
      await cp(dir, before, { recursive: true });
      await task();
      await kill();
      await rm(dir, { recursive: true });
      await rename(before, dir);
      await start();
    },
    async remove() {
      await kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await once(server.listen(0, HOST), 'listening');
  const address = server.address();
  server.close();
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}

async function canConnect(port: number): Promise<boolean> {
  const socket = createConnection(port, HOST);
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
