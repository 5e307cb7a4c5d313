import type { ConnectedDevice } from './presence-registry.ts';
import type { RedisAddress } from './redis.ts';
import type { ReplyTo, Report } from './replies.ts';
import { createShardChannel, type ShardChannel, type ShardEvents } from './shard-channel.ts';
import { connectShards, type Shard, type Shards } from './shards.ts';

/** Handlers of a gateway for messages and state changes; implemented by the gateway and by the tests' gateway. */
export type GatewayEvents = Omit<ShardEvents, 'devices'> & {
  /** Returns all connected devices. */
  devices(): Iterable<ConnectedDevice>;
};

/** A loop of a gateway and the time of its last progress by the monotonic clock (`performance.now()`). */
interface ChannelLoop {
  name: string;
  lastProgressAt(): number;
  /** The server that the loop needs. */
  server: Pick<Shard, 'assertWritable'>;
}

/** Presence and dispatch, on the gateway's side. */
export type GatewayChannel = Awaited<ReturnType<typeof createGatewayChannel>>;

/** Connects a gateway to Redis. While Redis is unavailable, the gateway serves devices from MongoDB. */
export async function createGatewayChannel(address: RedisAddress, on: GatewayEvents) {
  const shards = await connectShards(address);
  const channels = await Promise.all(
    shards.all.map((shard) =>
      createShardChannel(shard, { ...on, devices: () => devicesOf(shard, shards, on) }),
    ),
  );
  const channelOf = (shard: number) => channels[shard] as ShardChannel;
  const ofDevice = ({ token }: ConnectedDevice) => channelOf(shards.of(token).index);

  return {
    /** Checks that workers can see this gateway, on one shard at least. */
    hasLease: (): boolean => channels.some((channel) => channel.hasLease()),
    /** The loops that must make progress while the server of their shard responds. */
    loops: shards.all.flatMap((shard) => listLoops(shard, channelOf(shard.index), shards)),
    /** Name of the list of servers ({@link Shards.list}). */
    list: shards.list,
    /** Checks whether a device is in the shard of this name; absent: in any. */
    isInShard: (token: string, shard?: string): boolean =>
      shard === undefined || shards.of(token).name === shard,
    /** Returns milliseconds, by the clock of a shard's server. */
    now: (shard: number): number => channelOf(shard).now(),
    /** Registers a connection, later if Redis is unavailable. Never throws. */
    register: (device: ConnectedDevice): Promise<void> => ofDevice(device).register(device),
    /** Unregisters a connection, later if Redis is unavailable. Never throws. */
    unregister: (device: ConnectedDevice): Promise<void> => ofDevice(device).unregister(device),
    /** Sends a report about one recipient, on the shard that the delivery came from. Reports close in time share a round trip. */
    reply: (to: ReplyTo, position: number, report: Report): void =>
      channelOf(to.shard).reply(to, position, report),
    /** Sends the collected results, then releases the leases. */
    async close(): Promise<void> {
      await Promise.all(channels.map((channel) => channel.close()));
      shards.close();
    },
  };
}

function* devicesOf(
  shard: Shard,
  { all, of }: Shards,
  on: Pick<GatewayEvents, 'devices'>,
): Generator<ConnectedDevice> {
  if (all.length === 1) return yield* on.devices();
  for (const device of on.devices()) if (of(device.token) === shard) yield device;
}

function listLoops(shard: Shard, { loops }: ShardChannel, { all }: Shards): ChannelLoop[] {
  return Object.entries(loops).map(([name, lastProgressAt]) => ({
    name: all.length === 1 ? name : `${name} of ${shard.name}`,
    lastProgressAt,
    server: shard,
  }));
}
