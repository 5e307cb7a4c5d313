import { removeRateLimit } from '../carillon.ts';
import { createDevicePool } from '../faults/device-pool.ts';
import { openMongo } from '../mongo.ts';
import { type Stack, startStack } from '../stack.ts';
import { until } from '../until.ts';
import { type DeviceFleet, startDeviceFleet } from './device-fleet.ts';

const TOKENS_PER_CALL = 1_000;
const TIMEOUT_MS = 60_000;

/** A stack with a fleet of devices that are all online. */
export interface FleetFixture {
  stack: Stack;
  fleet: DeviceFleet;
  tokens: string[];
  /** Waits until exactly so many devices of the fleet are online for the API. */
  untilOnline(count: number): Promise<unknown>;
  /** Sends one push to all devices of the fleet. */
  sendToAll(name: string): Promise<void>;
  /** Waits until each named push has arrived at so many devices. */
  untilArrived(names: readonly string[], devices: number, everyMs?: number): Promise<unknown>;
  stop(): Promise<void>;
}

export async function openFleetFixture(size: number): Promise<FleetFixture> {
  const stack = await startStack({ env: { CARILLON_ADDRESS_LIMITS: 'off' } });
  await removeRateLimit(stack);
  const mongo = await openMongo(stack.dev);
  const { tokens } = await createDevicePool(stack, mongo, { registered: size, real: 0 });
  const fleet = startDeviceFleet(stack, tokens);

  function untilOnline(count: number): Promise<unknown> {
    const areOnline = async () => (await countOnline(stack, tokens)) === count;
    return until(areOnline, { timeoutMs: TIMEOUT_MS, everyMs: 500, what: `${count} online` });
  }

  await fleet.untilConnected();
  await untilOnline(size);
  return {
    stack,
    fleet,
    tokens,
    untilOnline,
    async sendToAll(name) {
      const data = { name, sentAt: Date.now() };
      const { status, text } = await stack.api('POST', '/push', { to: tokens, data });
      if (status !== 200) throw new Error(`push: ${status} ${text}`);
    },
    untilArrived(names, devices, everyMs = 250) {
      const areHere = async () => {
        const { pushes } = await fleet.report();
        return names.every((name) => pushes[name]?.arrived === devices);
      };
      const what = `${names.length} pushes at ${devices} devices`;
      return until(areHere, { timeoutMs: TIMEOUT_MS, everyMs, what });
    },
    async stop() {
      await fleet.stop();
      await mongo.close();
      await stack.stop();
    },
  };
}

async function countOnline(stack: Stack, tokens: readonly string[]): Promise<number> {
  let online = 0;
  for (let at = 0; at < tokens.length; at += TOKENS_PER_CALL) {
    const some = { tokens: tokens.slice(at, at + TOKENS_PER_CALL) };
    const response = await stack.api<{ presence: { online: boolean }[] }>(
      ...(['POST', '/devices/presence', some] as const),
    );
    if (response.status !== 200) throw new Error(`presence: ${response.status} ${response.text}`);
    online += response.json.presence.filter((one) => one.online).length;
  }
  return online;
}
