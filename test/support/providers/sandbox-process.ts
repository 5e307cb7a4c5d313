import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../../packages/presence/test/start-server.ts';
import { startProcess } from '../child-process.ts';
import { until } from '../until.ts';
import { openSandbox, type Sandbox } from './sandbox.ts';

const MAIN = fileURLToPath(new URL('../../../services/sandbox/src/main.ts', import.meta.url));
const ANY_PORT = '127.0.0.1:0';

/** Providers that no stack has started. */
export type OwnSandbox = Sandbox & { stop(): Promise<void> };

/**
 * Starts the process of a sandbox and waits until it responds.
 *
 * @param filesOf folder of another sandbox, whose keys and certificates are copied; if absent, it makes its own
 * @param webPush `host:port` of its push service
 */
export async function startOwnSandbox({
  filesOf,
  webPush = ANY_PORT,
}: {
  filesOf?: string;
  webPush?: string;
} = {}): Promise<OwnSandbox> {
  const files = await mkdtemp(join(tmpdir(), 'carillon-test-sandbox-'));
  if (filesOf !== undefined) await cp(filesOf, files, { recursive: true });
  const control = `127.0.0.1:${await freePort()}`;
  const child = startProcess(process.execPath, [MAIN], {
    output: 'errors shown',
    env: {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      LOG_LEVEL: 'warn',
      OPS_LISTEN: ANY_PORT,
      SANDBOX_LISTEN: control,
      SANDBOX_APNS_LISTEN: ANY_PORT,
      SANDBOX_FCM_LISTEN: ANY_PORT,
      SANDBOX_WEB_PUSH_LISTEN: webPush,
      SANDBOX_FILES: files,
    },
  });
  const stop = async () => {
    await child.stop();
    await rm(files, { recursive: true });
  };
  const sandbox = openSandbox(`http://${control}`);
  try {
    await until(() => sandbox.credentials(), { timeoutMs: 60_000, what: 'a sandbox' });
    return { ...sandbox, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
