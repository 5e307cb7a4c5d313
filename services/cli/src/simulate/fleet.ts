import type { Failure } from '../failure.ts';
import { atMost } from './at-most.ts';
import { areRefused, type Credentials, register } from './credentials.ts';
import type { Events } from './events.ts';
import { type Link, openLink } from './link.ts';
import type { MakeAddress } from './provider-address.ts';
import { readState, writeState } from './state-file.ts';
import { type Taken, watchSandbox } from './watch-sandbox.ts';

const AT_ONCE = 50;

/** The devices of a simulation. */
export interface Fleet {
  app: string;
  platform: string;
  size: number;
  /** Gives each new device its provider's address. */
  makeAddress: MakeAddress;
  /** The file that keeps their credentials between two runs. */
  stateFile?: string;
}

/**
 * Credentials for each device: those of an earlier run that still hold, and new ones.
 *
 * @throws Failure when the API refuses or can't be reached
 */
export async function enrol(
  api: string,
  { app, platform, size, makeAddress, stateFile }: Fleet,
  signal: AbortSignal,
): Promise<Credentials[]> {
  const state = stateFile === undefined ? undefined : readState(stateFile);
  const isSame = state?.app === app && state.platform === platform;
  // A browser's keys end with the sandbox's process, so it is a new one each time.
  const known = isSame && platform !== 'web' ? state.devices : [];
  const devices = known.slice();
  const indexes = Array.from({ length: size }, (_, index) => index);
  try {
    await atMost(AT_ONCE, indexes, async (index) => {
      const before = known[index];
      signal.throwIfAborted();
      if (before !== undefined && !(await areRefused(api, before))) return;
      const address = await makeAddress();
      const registration = { appId: app, platform, ...address?.registration };
      const device = await register(api, registration, signal);
      devices[index] = { ...device, ...(address !== undefined && { to: address.to }) };
    });
  } finally {
    // Those that were made are kept also when the next one failed.
    if (stateFile !== undefined)
      writeState(stateFile, { app, platform, devices: devices.filter(Boolean) });
  }
  return devices.slice(0, size);
}

/**
 * Connects the devices and keeps them connected until `signal` aborts; then ends each cleanly.
 *
 * @param onReady called once all are connected
 * @throws Failure when one can't connect at first, or none is let in any more
 */
export async function keepConnected(
  mqtt: string,
  devices: readonly Credentials[],
  events: Events,
  { signal, onReady }: { signal: AbortSignal; onReady: () => void },
): Promise<void> {
  const links: Link[] = [];
  const over = Promise.withResolvers<void>();
  let shutOut = 0;
  const onAbort = () => over.resolve();
  signal.addEventListener('abort', onAbort, { once: true });

  async function open(device: Credentials): Promise<void> {
    signal.throwIfAborted();
    const { token } = device;
    const link = openLink(mqtt, device, {
      connected: () => events.connected(token),
      disconnected: () => events.disconnected(token),
      push: (id, payload, receivedAt) => events.push(token, id, payload, receivedAt),
      refused: (failure: Failure) => {
        events.refused(token, failure.message);
        shutOut += 1;
        if (shutOut === devices.length) over.reject(failure);
      },
    });
    links.push(link);
    await Promise.race([link.ready, over.promise]);
  }

  try {
    await atMost(AT_ONCE, devices, open);
    if (!signal.aborted) onReady();
    await over.promise;
  } finally {
    signal.removeEventListener('abort', onAbort);
    over.promise.catch(() => undefined);
    await Promise.all(links.map((link) => link.close()));
  }
}

/**
 * Tells what arrives at the sandbox for the devices that a provider knows, until `signal` aborts.
 *
 * @param onReady called once everything that comes is seen
 * @throws Failure when the sandbox can't be reached
 */
export async function keepWatching(
  sandbox: string,
  devices: readonly Credentials[],
  events: Events,
  { signal, onReady }: { signal: AbortSignal; onReady: () => void },
): Promise<void> {
  const tokens = new Map(devices.map(({ to, token }) => [to, token]));
  const onTaken = ({ to, id, payload, receivedAt }: Taken) => {
    const token = tokens.get(to);
    if (token !== undefined) events.push(token, id, payload, receivedAt);
  };
  await watchSandbox(sandbox, onTaken, { signal, onOpen: onReady });
}
