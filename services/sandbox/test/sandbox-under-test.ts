import { createTemporaryFolder } from '../../../test/support/temporary-folder.ts';
import { createSandbox, type Sandbox } from '../src/sandbox.ts';

const ANY_PORT = { host: '127.0.0.1', port: 0 };
/** The tests of a file share one folder, because creating keys is slow. */
const FILES = createTemporaryFolder();

/** A request log entry of the control API. */
export interface ReceivedEntry {
  n: number;
  at: number;
  channel: string;
  to: string;
  push: string | null;
  status: number | null;
  headers: Record<string, string>;
  payload: unknown;
  acked?: number;
}

export interface SandboxUnderTest extends Sandbox {
  /** Calls the control API and returns the response. @throws when the status is not 200 */
  call(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>;
  received(query?: string): Promise<ReceivedEntry[]>;
  script(channel: string, token: string, responses: object[]): Promise<unknown>;
  /** Removes scripts, faults and log entries. */
  reset(): Promise<void>;
}

/** Starts a sandbox on free ports. */
export async function startSandbox(): Promise<SandboxUnderTest> {
  const listenAddresses = { control: ANY_PORT, apns: ANY_PORT, fcm: ANY_PORT, webPush: ANY_PORT };
  const sandbox = await createSandbox({ ...listenAddresses, files: FILES });
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
      (await call('GET', `/received?${query}`)).received as ReceivedEntry[],
    script: (channel, token, responses) =>
      call('PUT', `/scripts/${channel}/${token}`, { answers: responses }),
    reset: async () => {
      for (const collection of ['scripts', 'servers', 'received'])
        await call('DELETE', `/${collection}`);
    },
  };
}
