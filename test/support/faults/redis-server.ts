import { cp, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  freePort,
  startServer,
  type TestServer,
} from '../../../packages/presence/test/start-server.ts';
import { until } from '../until.ts';

const HOST = '127.0.0.1';

/** How it keeps its data: each write in a log (AOF), or only what was there at a SAVE (RDB). */
export type Persistence = 'log' | 'snapshot';

/** A Redis server that a test may stop and restart, empty or with its data. */
export interface RedisServer {
  url: string;
  port: number;
  /** The folder of its data. */
  dir: string;
  start(): Promise<void>;
  /** Suspends it with its connections open, and resumes it. */
  freeze(): void;
  thaw(): void;
  /** Kills it (SIGKILL). */
  kill(): Promise<void>;
  /** Does some work, then kills the server and starts it with the data from before: its last seconds are lost. */
  restoreAfter(task: () => Promise<void>): Promise<void>;
  /** Counts the ends of the server that nothing here has caused. */
  countDeaths(): number;
  /** Kills it and removes its data. */
  remove(): Promise<void>;
}

const PERSISTENCE_ARGS: Record<Persistence, readonly string[]> = {
  log: ['--appendonly', 'yes'],
  snapshot: ['--appendonly', 'no', '--save', ''],
};

/**
 * Makes a server of its own on a free port; it is not started yet.
 *
 * @param options.parent folder in which it gets one for its data
 */
export async function createRedisServer({
  parent = tmpdir(),
  persistence = 'log',
}: {
  parent?: string;
  persistence?: Persistence;
} = {}): Promise<RedisServer> {
  const folder = await mkdtemp(join(parent, 'carillon-redis-'));
  const dir = join(folder, 'data');
  await mkdir(dir);
  const port = await freePort();
  let server: TestServer | undefined;
  let deaths = 0;
  const kill = async () => {
    const killed = server;
    server = undefined;
    await killed?.stop();
  };
  const start = async () => {
    const command = process.env.CARILLON_REDIS_SERVER ?? 'redis-server';
    const args = ['--bind', HOST, '--port', String(port), '--dir', dir];
    args.push(...PERSISTENCE_ARGS[persistence]);
    const started = await startServer(command, () => args, port);
    server = started;
    void started.exited.then(() => {
      if (server === started) deaths += 1;
    });
  };
  const signal = (name: NodeJS.Signals) => {
    if (server !== undefined) process.kill(server.pid, name);
  };
  return {
    url: `redis://${HOST}:${port}`,
    port,
    dir,
    start,
    freeze: () => signal('SIGSTOP'),
    thaw: () => signal('SIGCONT'),
    kill,
    countDeaths: () => deaths,
    async restoreAfter(task) {
      const before = join(folder, 'before');
      await copyFiles(dir, before);
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

/**
 * Copies the folder of a running server. While it rewrites its log, the files come and go, and a copy may have the list of one
 * moment and the files of another: the server would not start with it. Such a copy is made again.
 */
export async function copyFiles(from: string, to: string): Promise<void> {
  const list = async () => (await readdir(from, { recursive: true })).sort().join('\n');
  const isCopied = async () => {
    await rm(to, { recursive: true, force: true });
    const before = await list();
    await cp(from, to, { recursive: true });
    return (await list()) === before;
  };
  await until(isCopied, { what: `a copy of ${from}` });
}
