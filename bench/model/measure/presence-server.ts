import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Redis } from 'ioredis';
import { freePortBase } from '../../support/free-ports.ts';
import type { PresenceServer } from './resources.ts';

/** Starts a Redis for presence alone, without persistence. */
export async function startPresenceServer(): Promise<
  PresenceServer & { port: number; stop(): Promise<void> }
> {
  const port = (await freePortBase()) + 90;
  const args = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
  const server = spawn('redis-server', args, { stdio: 'ignore' });
  const stopOnExit = () => void server.kill();
  process.once('exit', stopOnExit);
  const redis = new Redis(port, '127.0.0.1', { retryStrategy: () => 100 });
  redis.on('error', () => undefined);
  await redis.ping();
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    pid: server.pid ?? 0,
    redis,
    async stop() {
      process.off('exit', stopOnExit);
      redis.disconnect();
      const exited = once(server, 'exit');
      server.kill();
      await exited;
    },
  };
}
