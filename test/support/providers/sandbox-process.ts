import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../../packages/presence/test/start-server.ts';
import { startProcess } from '../child-process.ts';

const MAIN = fileURLToPath(new URL('../../../services/sandbox/src/main.ts', import.meta.url));
const ANY_PORT = '127.0.0.1:0';

/** Settings of a sandbox. */
export interface SandboxSettings {
  /** Folder of another sandbox, whose keys and certificates are copied; if absent, it makes its own. */
  filesOf?: string;
  /** `host:port` of its push service; a free one if absent. */
  webPush?: string;
}

/** Starts the process of a sandbox. Returns the URL of its API, which may not respond yet. */
export async function startSandboxProcess({
  filesOf,
  webPush = ANY_PORT,
}: SandboxSettings = {}): Promise<{ url: string; stop(): Promise<void> }> {
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
  return {
    url: `http://${control}`,
    async stop() {
      await child.stop();
      await rm(files, { recursive: true });
    },
  };
}
