import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Stack } from './stack.ts';
import { until } from './until.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const HOST = '127.0.0.1';

/** A delivery-worker that a test runs beside a stack. */
export interface DeliveryWorker {
  /** Base URL of /readyz and /metrics. */
  ops: string;
  /** Everything that it has written. */
  output(): string;
  /** Waits for its end and returns its exit code. */
  untilExit(): Promise<number | null>;
  /** Waits until it is ready. */
  untilReady(): Promise<void>;
  /** Stops it as a supervisor does. Harmless after its end. */
  stop(): Promise<void>;
}

/** Starts a delivery-worker for the servers of a stack, with its keys of providers' secrets unless `env` has others. */
export async function startDeliveryWorker(
  { dev, home }: Pick<Stack, 'dev' | 'home'>,
  env: Record<string, string>,
): Promise<DeliveryWorker> {
  const { credentialKeys } = JSON.parse(readFileSync(`${home}/secrets.json`, 'utf8')) as {
    credentialKeys: string;
  };
  const port = await freePort();
  const child = spawn(process.execPath, ['services/delivery-worker/src/main.ts'], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH,
      MONGODB_URI: dev.mongodb,
      REDIS_URL: dev.redis,
      CREDENTIAL_KEYS: credentialKeys,
      OPS_LISTEN: `${HOST}:${port}`,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  const closed = once(child, 'close');
  const ops = `http://${HOST}:${port}`;
  return {
    ops,
    output: () => output,
    async untilExit() {
      await closed;
      return child.exitCode;
    },
    async untilReady() {
      const isReady = async () => (await fetch(`${ops}/readyz`)).ok;
      await until(isReady, { timeoutMs: 30_000, what: 'a ready delivery-worker' });
    },
    async stop() {
      child.kill('SIGTERM');
      await closed;
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
