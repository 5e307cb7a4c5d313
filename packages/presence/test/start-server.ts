import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { startProcess } from '../../../test/support/child-process.ts';
import { createDataFolder } from '../../../test/support/data-folder.ts';
import { until } from '../../../test/support/until.ts';

/** A busy machine needs up to ten seconds to start MongoDB. */
const START_TIMEOUT_MS = 40_000;
/** The ports of benchmarks and of the tests' stacks are above, and browsers refuse some below. */
const FIRST_PORT = 10_100;
const PORTS = 1_896;
/** A server may need more than one port before it listens on the first. */
const givenPorts = new Set<number>();

/** A server process for one test, on a free port and with a temporary folder. */
export interface TestServer {
  port: number;
  pid: number;
  /** Resolves when it has ended, for any reason. */
  exited: Promise<unknown>;
  stop(): Promise<void>;
}

/** Starts a program on a port, by default a free one, and waits until it accepts connections. */
export async function startServer(
  command: string,
  args: (server: { port: number; folder: string }) => string[],
  givenPort?: number,
): Promise<TestServer> {
  const port = givenPort ?? (await freePort());
  const folder = await createDataFolder();
  const server = startProcess(command, args({ port, folder }), { output: 'ignored' });
  const stop = async () => {
    server.kill('SIGKILL');
    await server.exited;
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await until(() => canConnect(port), {
      timeoutMs: START_TIMEOUT_MS,
      what: `${command} on port ${port}`,
    });
  } catch (error) {
    await stop();
    throw error;
  }
  return { port, pid: server.pid, exited: server.exited, stop };
}

/** Starts a Redis without persistence. */
export async function startRedis(): Promise<TestServer & { url: string }> {
  const server = await startServer('redis-server', ({ port, folder }) => [
    ...['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder],
    ...['--save', '', '--appendonly', 'no'],
  ]);
  return { ...server, url: `redis://127.0.0.1:${server.port}` };
}

/** Greatest number of Jest's workers; each has ports of its own, for one that tries a port occupies it for a moment. */
const WORKERS = 8;
const WORKER = Number(process.env.JEST_WORKER_ID ?? 0) % WORKERS;

/**
 * Finds a port of this machine that is free now. It is below those from which the system assigns the ports of outgoing
 * connections: one of these could take it before the server listens, or while it restarts.
 */
export async function freePort(): Promise<number> {
  for (let tried = 0; tried < PORTS; tried += 1) {
    const port = FIRST_PORT + WORKERS * randomInt(PORTS / WORKERS) + WORKER;
    if (givenPorts.has(port) || !(await isFree(port))) continue;
    givenPorts.add(port);
    return port;
  }
  throw new Error('no free port');
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
  } catch {
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}

async function canConnect(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
