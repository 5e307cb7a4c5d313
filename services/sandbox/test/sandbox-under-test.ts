import { temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { createSandbox, type Sandbox } from '../src/sandbox.ts';

const ANY = { host: '127.0.0.1', port: 0 };
/** Making keys takes a while, so all tests of a file share one folder. */
const FILES = temporaryFolder();

/** A request as the control API tells it. */
export interface Seen {
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

export interface UnderTest extends Sandbox {
  /** Calls the control API and gives its answer, which must be a good one. */
  call(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>;
  received(query?: string): Promise<Seen[]>;
  script(channel: string, token: string, answers: object[], once?: boolean): Promise<unknown>;
  /** Everything as usual, nothing remembered. */
  reset(): Promise<void>;
}

/** Starts a sandbox on free ports. */
export async function startSandbox(): Promise<UnderTest> {
  const at = { control: ANY, apns: ANY, fcm: ANY, webPush: ANY };
  const sandbox = await createSandbox({ ...at, files: FILES });
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
    received: async (query = '') => (await call('GET', `/received?${query}`)).received as Seen[],
    script: (channel, token, answers, once = false) =>
      call('PUT', `/scripts/${channel}/${token}`, { answers, once }),
    reset: async () => {
      for (const what of ['scripts', 'servers', 'received']) await call('DELETE', `/${what}`);
    },
  };
}
