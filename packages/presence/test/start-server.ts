import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../../../test/support/until.ts';

/** A server process of a test's own, on a free port and with a folder that goes with it. */
export interface TestServer {
  port: number;
  pid: number;
  stop(): Promise<void>;
}

/** Starts a program that listens on the port it is told, and waits until it does. */
export async function startServer(
  command: string,
  args: (at: { port: number; folder: string }) => string[],
): Promise<TestServer> {
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), 'carillon-test-'));
  const server = spawn(command, args({ port, folder }), { stdio: 'ignore' });
  const ended = once(server, 'exit');
  await until(() => canConnect(port), { what: `${command} on port ${port}` });
  return {
    port,
    pid: server.pid ?? 0,
    async stop() {
      server.kill('SIGKILL');
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** A Redis that keeps nothing. */
export async function startRedis(): Promise<TestServer & { url: string }> {
  const server = await startServer('redis-server', ({ port, folder }) => [
    ...['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder],
    ...['--save', '', '--appendonly', 'no'],
  ]);
  return { ...server, url: `redis://127.0.0.1:${server.port}` };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
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
