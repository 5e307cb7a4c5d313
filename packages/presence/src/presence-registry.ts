import { createBatcher } from '@carillon/core/batcher';
import { encodeGatewayMessage } from './gateway-messages.ts';
import { decodePresence, encodePresence, TTL_SECONDS } from './keys.ts';
import type { PresenceServer } from './presence-server.ts';
import { readScript } from './read-script.ts';

/** A device and its connection. */
export interface ConnectedDevice {
  token: string;
  connection: string;
  /** Milliseconds, monotonic (`performance.now()`). */
  connectedAt: number;
}

/**
 * State in which a refresh found a device's entry:
 * - present: it named this connection;
 * - lost: it was missing or named an older connection; it was written again, but workers saw the device as offline;
 * - taken-over: it names a newer connection and was left unchanged;
 * - unknown: Redis did not respond, so it may have been any of these.
 */
export type RefreshResult = 'present' | 'lost' | 'taken-over' | 'unknown';

/** Maximum difference between two gateways' estimates of Redis's time. */
const CLOCK_SKEW_MS = 1_000;
const REFRESH_PRESENCE = readScript('refresh-presence');
const UNREGISTER_PRESENCE = readScript('unregister-presence');

type PipelineResults = [error: Error | null, result: unknown][];

/** Writes the presence entries of a gateway's devices. */
export type PresenceRegistry = ReturnType<typeof createPresenceRegistry>;

/**
 * Creates the presence registry of a gateway. Concurrent calls share one round trip.
 *
 * @param on.gateway returns the current identity
 * @param on.isOpen checks that a connection is still open
 * @param on.now returns milliseconds, Redis's time; NaN while it is unknown
 */
export function createPresenceRegistry(
  server: Pick<PresenceServer, 'redis' | 'keys' | 'isReady'>,
  on: { gateway(): string | undefined; isOpen(device: ConnectedDevice): boolean; now(): number },
) {
  const { redis, keys } = server;

  function requireIdentity(): string {
    const id = on.gateway();
    if (id === undefined) throw new Error('the gateway has no identity yet: Redis was not reached');
    return id;
  }

  /** Converts the connect time; 0 while Redis's time is unknown: any other connection then wins until the next refresh. */
  function toRedisTime(device: ConnectedDevice): number {
    return Math.round(on.now() - performance.now() + device.connectedAt) || 0;
  }

  const register = createBatcher<ConnectedDevice, void>(
    'register-presence',
    async (devices) => {
      const id = requireIdentity();
      // A connection that closed while it waited in the batch must not be registered after its removal.
      const openDevices = devices.filter(on.isOpen);
      const pipeline = redis.pipeline();
      for (const device of openDevices) {
        const presence = encodePresence(id, device.connection, toRedisTime(device));
        pipeline.set(keys.presence(device.token), presence, 'EX', TTL_SECONDS.presence, 'GET');
      }
      const results = openDevices.length === 0 ? [] : await execPipeline(pipeline);
      await kickPrevious(server, openDevices, results);
      const errors = new Map(openDevices.map((device, index) => [device, results[index]?.[0]]));
      return devices.map((device) => errors.get(device) as undefined | Error);
    },
    { maxInFlight: 4 },
  );

  const unregister = createBatcher<ConnectedDevice, void>(
    'unregister-presence',
    async (devices) => {
      const pipeline = redis.pipeline();
      for (const { token, connection } of devices) {
        pipeline.eval(UNREGISTER_PRESENCE, 1, keys.presence(token), connection);
      }
      return (await execPipeline(pipeline)).map(([error]) => error as undefined | Error);
    },
    { maxInFlight: 4 },
  );

  return {
    /** Writes the entry of a new connection and makes the gateway of an older one close it. */
    register,
    /** Removes the entry of a closed connection. */
    unregister,
    isRedisReady: server.isReady,
    /** Writes entries again and returns the state of each; gateways of older connections close them. */
    async refresh(devices: readonly ConnectedDevice[]): Promise<RefreshResult[]> {
      const id = requireIdentity();
      const pipeline = redis.pipeline();
      for (const device of devices) {
        const { token, connection } = device;
        const redisConnectedAt = toRedisTime(device);
        const presence = encodePresence(id, connection, redisConnectedAt);
        pipeline.eval(
          REFRESH_PRESENCE,
          1,
          keys.presence(token),
          presence,
          connection,
          redisConnectedAt,
          TTL_SECONDS.presence,
          CLOCK_SKEW_MS,
        );
      }
      const results =
        devices.length === 0 ? [] : await execPipeline(pipeline).catch((): PipelineResults => []);
      // A gateway that misses the message finds the newer entry at its next refresh.
      await kickPrevious(server, devices, results).catch(() => undefined);
      return devices.map((_, index) => toRefreshResult(results[index]));
    },
  };
}

/** Makes the gateways of older connections close them. A stopped gateway has no stream, which is not an error. */
async function kickPrevious(
  { redis, keys }: Pick<PresenceServer, 'redis' | 'keys'>,
  devices: readonly ConnectedDevice[],
  results: PipelineResults,
): Promise<void> {
  const pipeline = redis.pipeline();
  for (const [index, { token, connection }] of devices.entries()) {
    const previous = decodePresence(results[index]?.[1] as string | null);
    if (previous === undefined || previous.connection === connection) continue;
    const message = encodeGatewayMessage({
      kind: 'kick',
      token,
      connection: previous.connection,
    });
    pipeline.xadd(keys.gatewayStream(previous.gateway), 'NOMKSTREAM', '*', ...message);
  }
  if (pipeline.length > 0) await pipeline.exec();
}

function toRefreshResult(
  [error, reply]: PipelineResults[number] | [undefined] = [undefined],
): RefreshResult {
  if (error !== null) return 'unknown';
  if (reply === 'taken-over') return 'taken-over';
  return typeof reply === 'string' ? 'lost' : 'present';
}

async function execPipeline(pipeline: {
  exec(): Promise<PipelineResults | null>;
}): Promise<PipelineResults> {
  return (await pipeline.exec()) ?? [];
}
