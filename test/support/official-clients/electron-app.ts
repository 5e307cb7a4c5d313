import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Dev } from '../stack/dev-file.ts';

const APP = fileURLToPath(new URL('./electron-app.mjs', import.meta.url));

/** A running app with the official Electron SDK. */
export type ElectronApp = Awaited<ReturnType<typeof startElectronApp>>;

type AppMessage =
  | { ready: true }
  | { payload: unknown }
  | { connected: boolean }
  | { id: number; result?: unknown; error?: string };

/**
 * Starts the app with a folder for its settings, pointed at a stack.
 *
 * @param ca file of the authority that it trusts, for `mqtts://`
 */
export async function startElectronApp(
  folder: string,
  { api, mqtt }: Pick<Dev, 'api' | 'mqtt'>,
  ca?: string,
) {
  await mkdir(folder, { recursive: true });
  const child = fork(APP, {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    // Its dependencies use a module that Node has deprecated.
    execArgv: ['--disable-warning=DEP0040'],
    env: { ...process.env, ...(ca !== undefined && { NODE_EXTRA_CA_CERTS: ca }) },
  });
  const payloads: unknown[] = [];
  const calls = createCalls(child);
  let connected = false;
  child.on('message', (message: AppMessage) => {
    if ('payload' in message) payloads.push(message.payload);
    if ('connected' in message) connected = message.connected;
  });
  await once(child, 'message');
  await calls('setEnterpriseConfig', api, mqtt);
  return {
    /** Payloads that the app's listener got, in the order of arrival. */
    payloads,
    /** True if the SDK reports that it is connected. */
    get connected() {
      return connected;
    },
    call: calls,
    /** Ends the app; its settings stay in its folder. */
    async quit(): Promise<void> {
      if (child.exitCode !== null) return;
      const ended = once(child, 'exit');
      child.disconnect();
      await ended;
    },
  };
}

/** Creates the function that calls one of the SDK, and throws what that throws. */
function createCalls(child: ChildProcess) {
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  let last = 0;
  child.on('message', (message: AppMessage) => {
    if (!('id' in message)) return;
    const call = waiting.get(message.id);
    waiting.delete(message.id);
    if (message.error === undefined) call?.resolve(message.result);
    else call?.reject(new Error(message.error));
  });
  return <T = unknown>(method: string, ...args: readonly unknown[]): Promise<T> => {
    last += 1;
    const call = Promise.withResolvers<unknown>();
    waiting.set(last, call);
    child.send({ id: last, method, args });
    return call.promise as Promise<T>;
  };
}
