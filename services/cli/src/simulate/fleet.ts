import pMap from 'p-map';
import type { Failure } from '../failure.ts';
import type { Output } from '../output.ts';
import { openConnection } from './connection.ts';
import {
  type Credentials,
  hasRejectedCredentials,
  readState,
  registerDevice,
  writeState,
} from './credentials.ts';
import type { MakeAddress } from './provider-address.ts';
import { type SandboxDelivery, watchSandbox } from './watch-sandbox.ts';

/** Maximum devices that are set up at a time. */
const MAX_CONCURRENT = 50;

/** Settings of a simulation's devices. */
export interface Fleet {
  app: string;
  platform: string;
  size: number;
  /** Creates the provider address of a new device. */
  makeAddress: MakeAddress;
  /** File that holds the devices' credentials between two runs. */
  stateFile?: string;
  /** Prints a line for people. */
  print(line: string): void;
}

/** Events of simulated devices. */
export type SimulationEvents = ReturnType<typeof createEvents>;

/** Creates the events' printer: one JSON object per line with --json, otherwise one line of text. */
export function createEvents(output: Output) {
  const print = (token: string, event: string, more: object, text: string) =>
    output.show({ event, token, ...more }, [`${token} ${text}`]);
  return {
    connected: (token: string) => print(token, 'connected', {}, 'is connected'),
    disconnected: (token: string) => print(token, 'disconnected', {}, 'lost its connection'),
    rejected: (token: string, reason: string) =>
      print(token, 'refused', { error: reason }, `was rejected: ${reason}`),
    push: (token: string, id: string, payload: string, receivedAt: Date) =>
      output.showText(formatPushEvent(token, id, payload, receivedAt), [
        `${token} received push ${id} at ${receivedAt.toISOString()}: ${payload}`,
      ]),
  };
}

/** Formats a push as JSON with its payload unchanged, because parsing would change large numbers. */
function formatPushEvent(token: string, id: string, payload: string, receivedAt: Date): string {
  const head = JSON.stringify({ event: 'push', token, id });
  const at = JSON.stringify(receivedAt);
  return `${head.slice(0, -1)},"payload":${toSingleLine(payload)},"receivedAt":${at}}`;
}

function toSingleLine(payload: string): string {
  try {
    JSON.parse(payload);
  } catch {
    return JSON.stringify(payload);
  }
  // Unescaped line breaks in JSON are white space between tokens.
  return payload.replace(/[\r\n]/g, ' ');
}

/**
 * Returns credentials for each device: those of an earlier run that are still valid, and new ones.
 *
 * @throws Failure when the API rejects a device or can't be reached
 */
export async function registerDevices(
  api: string,
  { app, platform, size, makeAddress, stateFile, print }: Fleet,
  signal: AbortSignal,
): Promise<Credentials[]> {
  const state = stateFile === undefined ? undefined : readState(stateFile);
  const isSame = state?.app === app && state.platform === platform;
  // The sandbox's process holds the browsers' keys in memory, so browsers always register again.
  const savedDevices = isSame && platform !== 'web' ? state.devices : [];
  const devices = savedDevices.slice();
  const indexes = Array.from({ length: size }, (_, index) => index);
  let hasWaited = false;
  const onWait = (status: number, seconds: number) => {
    if (!hasWaited) print(describeWait(status, seconds));
    hasWaited = true;
  };
  try {
    await forEachConcurrently(indexes, async (index) => {
      const savedDevice = savedDevices[index];
      signal.throwIfAborted();
      if (savedDevice !== undefined && !(await hasRejectedCredentials(api, savedDevice))) return;
      const address = await makeAddress();
      const registration = { appId: app, platform, ...address?.registration };
      const device = await registerDevice(api, registration, signal, onWait);
      devices[index] = { ...device, ...(address !== undefined && { to: address.to }) };
    });
  } finally {
    // Saved also after a failure, so that the devices registered so far are used again.
    if (stateFile !== undefined)
      writeState(stateFile, { app, platform, devices: devices.filter(Boolean) });
  }
  return devices.slice(0, size);
}

function describeWait(status: number, seconds: number): string {
  const reason =
    status === 429
      ? 'The API rejects further registrations (429: rate limit of the address or the app)'
      : `The API is unavailable (${status})`;
  return `${reason}; retrying in ${seconds} s, until it succeeds.`;
}

/**
 * Connects the devices and keeps them connected until `signal` aborts; then disconnects each cleanly.
 *
 * @param onReady called once all are connected
 * @throws Failure when a device's first connect fails, or the gateway has rejected all devices
 */
export async function keepConnected(
  mqtt: string,
  devices: readonly Credentials[],
  events: SimulationEvents,
  { signal, onReady }: { signal: AbortSignal; onReady: () => void },
): Promise<void> {
  const connections: ReturnType<typeof openConnection>[] = [];
  const stopped = Promise.withResolvers<void>();
  let rejectedCount = 0;
  const onAbort = () => stopped.resolve();
  signal.addEventListener('abort', onAbort, { once: true });

  async function openDevice(device: Credentials): Promise<void> {
    signal.throwIfAborted();
    const { token } = device;
    const connection = openConnection(mqtt, device, {
      connected: () => events.connected(token),
      disconnected: () => events.disconnected(token),
      push: (id, payload, receivedAt) => events.push(token, id, payload, receivedAt),
      rejected: (failure: Failure) => {
        events.rejected(token, failure.message);
        rejectedCount += 1;
        if (rejectedCount === devices.length) stopped.reject(failure);
      },
    });
    connections.push(connection);
    await Promise.race([connection.ready, stopped.promise]);
  }

  try {
    await forEachConcurrently(devices, openDevice);
    if (!signal.aborted) onReady();
    await stopped.promise;
  } finally {
    signal.removeEventListener('abort', onAbort);
    stopped.promise.catch(() => undefined);
    await Promise.all(connections.map((connection) => connection.close()));
  }
}

/**
 * Reports the pushes that the sandbox receives for the devices of a provider, until `signal` aborts.
 *
 * @param onReady called once every further push is reported
 * @throws Failure when the sandbox can't be reached
 */
export async function keepWatching(
  sandbox: string,
  devices: readonly Credentials[],
  events: SimulationEvents,
  { signal, onReady }: { signal: AbortSignal; onReady: () => void },
): Promise<void> {
  const tokens = new Map(devices.map(({ to, token }) => [to, token]));
  const onDelivery = ({ to, id, payload, receivedAt }: SandboxDelivery) => {
    const token = tokens.get(to);
    if (token !== undefined) events.push(token, id, payload, receivedAt);
  };
  await watchSandbox(sandbox, onDelivery, { signal, onOpen: onReady });
}

/**
 * Runs `run` for each item in order, at most {@link MAX_CONCURRENT} at a time. After a failure it starts no further
 * item, and throws once the running ones have ended (p-map alone would throw at once).
 */
async function forEachConcurrently<T>(
  items: readonly T[],
  run: (item: T) => Promise<void>,
): Promise<void> {
  let failure: { error: unknown } | undefined;
  async function runUnlessFailed(item: T): Promise<void> {
    if (failure !== undefined) return;
    await run(item).catch((error: unknown) => {
      failure ??= { error };
    });
  }
  await pMap(items, runUnlessFailed, { concurrency: MAX_CONCURRENT });
  if (failure !== undefined) throw failure.error;
}
