import {
  DEVICE_CONNECTIONS,
  KEPT_CONNECTIONS,
  MAX_CONNECTIONS,
} from '../../packages/store/src/store.ts';
import type { Capacity } from './capacity.ts';
import type { Inputs } from './inputs.ts';
import type { Measured } from './measured.ts';

/** A resource that more processes do not add to. */
export interface Limit {
  name: string;
  needed: number;
  available: number;
  unit: string;
  /** How many times the load fits; below 1 it does not. */
  headroom: number;
  lift: string;
}

/** Returns the limits of a load, the next one first. */
export function findLimits(inputs: Inputs, capacity: Capacity, measured: Measured): Limit[] {
  const { mongodb, redis } = capacity;
  const limits: Omit<Limit, 'headroom'>[] = [
    {
      name: "CPU of MongoDB's primary",
      needed: mongodb.cores,
      available: inputs.mongodbCores * inputs.utilisation,
      unit: 'cores',
      lift: 'a primary with more cores (--mongodb-cores), or several installations with some apps each; shards, once a release has them',
    },
    {
      name: "journal of MongoDB's primary",
      needed: mongodb.journalMb,
      available: inputs.journalMb * inputs.utilisation,
      unit: 'MB/s',
      lift: 'a disk that syncs more a second (--journal-mb), or several installations',
    },
    {
      name: "one core of the queues' Redis",
      needed: redis.queueCores,
      available: inputs.utilisation,
      unit: 'cores',
      lift: 'fewer pushes with more recipients each, or several installations; a cluster divides only the other queues',
    },
    {
      name: 'connections of MongoDB',
      needed: countMongodbConnections(capacity),
      available: inputs.mongodbConnections * inputs.utilisation,
      unit: 'connections',
      lift: 'fewer gateways with a larger MAX_CONNECTIONS (--links-per-gateway), or more open files for MongoDB (--mongodb-connections)',
    },
    {
      name: 'clients of a Redis server',
      needed: countRedisClients(capacity, measured),
      available: inputs.redisClients * inputs.utilisation,
      unit: 'clients',
      lift: 'a higher maxclients (--redis-clients), or fewer gateways with a larger MAX_CONNECTIONS (--links-per-gateway)',
    },
  ];
  return limits
    .map((limit) => ({ ...limit, headroom: limit.available / limit.needed }))
    .sort((a, b) => a.headroom - b.headroom);
}

/** Each process may open its whole pool under load. */
function countMongodbConnections({ services }: Capacity): number {
  return Object.entries(services).reduce(
    (sum, [name, { processes }]) =>
      sum + processes * (name === 'api' ? KEPT_CONNECTIONS + DEVICE_CONNECTIONS : MAX_CONNECTIONS),
    0,
  );
}

/** A server of presence has clients in all processes; so has that of the queues. The one with more counts. */
function countRedisClients({ services, redis }: Capacity, { deliveries }: Measured): number {
  const countAt = (server: string) =>
    Object.entries(services).reduce(
      (sum, [name, { processes }]) =>
        sum + processes * (deliveries.connections[name]?.[server] ?? 0),
      0,
    );
  const [queues, presence] = [countAt('redis'), countAt('presence')];
  return redis.servers === 1 ? queues + presence : Math.max(queues, presence);
}
