import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { until } from '../until.ts';
import { openSandbox, type Sandbox } from './sandbox.ts';

const MAIN = fileURLToPath(new URL('../../../services/sandbox/src/main.ts', import.meta.url));
const START_MS = 20_000;
const ANY_PORT = '127.0.0.1:0';

/** Providers that no stack has started: another company's gateway. */
export interface SecondSandbox extends Sandbox {
  stop(): Promise<void>;
}

/**
 * Starts one with keys and certificates of its own, unless it is given a folder of another's (which is copied).
 *
 * @param webPush `host:port` of its push service; a free one if absent
 */
export async function startSecondSandbox({
  filesOf,
  webPush = ANY_PORT,
}: {
  filesOf?: string;
  webPush?: string;
} = {}): Promise<SecondSandbox> {
  const files = await mkdtemp(join(tmpdir(), 'carillon-test-sandbox-'));
  if (filesOf !== undefined) await cp(filesOf, files, { recursive: true });
  const control = `127.0.0.1:${await freePort()}`;
  const child = spawn(process.execPath, [MAIN], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      PATH: process.env.PATH,
      LOG_LEVEL: 'warn',
      OPS_LISTEN: ANY_PORT,
      SANDBOX_LISTEN: control,
      SANDBOX_APNS_LISTEN: ANY_PORT,
      SANDBOX_FCM_LISTEN: ANY_PORT,
      SANDBOX_WEB_PUSH_LISTEN: webPush,
      SANDBOX_FILES: files,
    },
  });
  const sandbox = openSandbox(`http://${control}`);
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.kill('SIGTERM')) await once(child, 'exit');
    await rm(files, { recursive: true });
  };
  try {
    await until(() => sandbox.credentials(), { timeoutMs: START_MS, what: 'a second sandbox' });
    return { ...sandbox, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A port of 127.0.0.1 that nobody has now. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
