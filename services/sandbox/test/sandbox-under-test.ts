import type { Received } from '../../../test/support/providers/sandbox.ts';
import { createTemporaryFolder } from '../../../test/support/temporary-folder.ts';
import { createSandbox } from '../src/sandbox.ts';

const ANY_PORT = { host: '127.0.0.1', port: 0 };
/** The tests of a file share one folder, because creating keys is slow. */
const FILES = createTemporaryFolder();

/** A sandbox in this process, and its control API. */
export type SandboxUnderTest = Awaited<ReturnType<typeof startSandbox>>;

/** Starts a sandbox on free ports. */
export async function startSandbox() {
  const listenAddresses = { control: ANY_PORT, apns: ANY_PORT, fcm: ANY_PORT, webPush: ANY_PORT };
  const sandbox = await createSandbox({ ...listenAddresses, files: FILES });
  /** Calls the control API and returns the response. @throws when the status is not 200 */
  async function call(method: string, path: string, body?: unknown) {
    const init = body === undefined ? { method } : { method, body: JSON.stringify(body) };
    const response = await fetch(`${sandbox.control}${path}`, init);
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text) as Record<string, unknown>;
  }
  return {
    ...sandbox,
    call,
    received: async (query = '') =>
      (await call('GET', `/received?${query}`)).received as Received[],
    script: (channel: string, token: string, responses: object[]) =>
      call('PUT', `/scripts/${channel}/${token}`, { answers: responses }),
    /** Removes scripts, faults and log entries. */
    reset: async () => {
      for (const collection of ['scripts', 'servers', 'received'])
        await call('DELETE', `/${collection}`);
    },
  };
}
