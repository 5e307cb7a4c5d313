import { isDeepStrictEqual } from 'node:util';
import { environment } from '../../services/device-gateway/src/environment.ts';
import { type Costs, groupPush, singleAt } from './costs.ts';
import type { Inputs } from './inputs.ts';
import type { Measured, Resources } from './measured.ts';
import { amountOf, mapResources, sumOf } from './resources.ts';

/** Requirements of a load at its peak. CPU in cores, rates in MB a second, disk in GB. */
export interface Capacity {
  services: Record<ServiceName, { processes: number; cores: number; mbEach: number }>;
  mongodb: { cores: number; diskGb: number; journalMb: number; shards: number };
  /** Redis of the queues, and that of presence, which may be the same server. */
  redis: { queueCores: number; presenceCores: number; servers: number; memoryGb: number };
  /** MB a second into and out of all processes of a kind. */
  network: Record<string, { in: number; out: number }>;
  deliveriesPerSecond: number;
  /** Devices reconnect at the end of a connection. */
  connectsPerSecond: number;
}

export type ServiceName = 'api' | 'delivery-worker' | 'device-gateway' | 'scheduler';

const US_PER_CORE = 1e6;
const MB = 1e6;
const GB = 1e9;
/** One process of each service may end at any time. */
const MIN_PROCESSES = 2;
/** Bytes that a gateway holds for slow devices at most. */
const WAITING_BYTES = environment.shape.MAX_WAITING_BYTES.parse(undefined);
const DAY_SECONDS = 86_400;
const HOUR_SECONDS = 3_600;
const MAX_STEPS = 100;
const NETWORK = ['api', 'delivery-worker', 'device-gateway', 'redis', 'presence', 'mongodb'];

/** Computes what a load needs from the costs. */
export function computeCapacity(inputs: Inputs, costs: Costs, measured: Measured): Capacity {
  const layout = findLayout(inputs, costs, measured);
  const { processes, presenceServers } = layout;
  const used = useOf(inputs, costs, measured, layout);
  const coresOf = (name: string) => amountOf(used, `${name} cpu`) / US_PER_CORE;
  const [queueCores, presenceCores] = [coresOf('redis'), coresOf('presence')];
  const mongodbCores = coresOf('mongodb');
  const service = (name: ServiceName) => ({
    processes: processes[name],
    cores: coresOf(name),
    mbEach: memoryMb(name, inputs, measured, processes),
  });
  return {
    services: {
      api: service('api'),
      'delivery-worker': service('delivery-worker'),
      'device-gateway': service('device-gateway'),
      scheduler: service('scheduler'),
    },
    mongodb: {
      cores: mongodbCores,
      diskGb: diskBytes(inputs, measured) / GB,
      journalMb: amountOf(used, 'mongodb journal') / MB,
      shards: Math.max(1, Math.ceil(mongodbCores / (inputs.mongodbCores * inputs.utilisation))),
    },
    redis: {
      queueCores,
      presenceCores,
      servers: 1 + presenceServers,
      memoryGb: (inputs.connected * measured.links.redisBytesPerLink) / GB,
    },
    network: Object.fromEntries(
      NETWORK.map((name) => [
        name,
        { in: amountOf(used, `${name} in`) / MB, out: amountOf(used, `${name} out`) / MB },
      ]),
    ),
    deliveriesPerSecond: inputs.pushes * inputs.fanOut,
    connectsPerSecond: connectsPerSecond(inputs),
  };
}

/** The servers that a load needs. One Redis serves queues and presence while a core suffices for both. */
interface Layout {
  processes: Record<ServiceName, number>;
  /** Redis servers of presence; 0 while it shares that of the queues. */
  presenceServers: number;
}

/**
 * Finds the number of processes and servers that keeps each below the utilisation. More workers have fewer pushes each, and
 * more gateways and presence servers are more messages of a batch, so they raise the costs: the numbers grow until they
 * suffice.
 */
function findLayout(inputs: Inputs, costs: Costs, measured: Measured): Layout {
  const gateways = Math.ceil(inputs.connected / inputs.linksPerGateway);
  let layout: Layout = {
    processes: {
      api: MIN_PROCESSES,
      'delivery-worker': MIN_PROCESSES,
      'device-gateway': Math.max(MIN_PROCESSES, gateways),
      scheduler: MIN_PROCESSES,
    },
    presenceServers: 0,
  };
  for (let step = 0; step < MAX_STEPS; step += 1) {
    const larger = enlarge(layout, useOf(inputs, costs, measured, layout), inputs.utilisation);
    if (larger === undefined) return layout;
    layout = larger;
  }
  throw new Error('the processes use more at rest than they may');
}

/** Adds the missing processes and servers; undefined if none is missing. */
function enlarge({ processes, presenceServers }: Layout, used: Resources, utilisation: number) {
  const needed = (name: string) =>
    Math.ceil(amountOf(used, `${name} cpu`) / US_PER_CORE / utilisation);
  const atLeast = (name: ServiceName) => Math.max(processes[name], needed(name));
  const sharedCpu = amountOf(used, 'redis cpu') + amountOf(used, 'presence cpu');
  const isShared = presenceServers === 0 && sharedCpu <= utilisation * US_PER_CORE;
  const larger: Layout = {
    processes: {
      ...processes,
      api: atLeast('api'),
      'delivery-worker': atLeast('delivery-worker'),
      'device-gateway': atLeast('device-gateway'),
    },
    presenceServers: isShared ? 0 : Math.max(1, presenceServers, needed('presence')),
  };
  return isDeepStrictEqual(larger, { processes, presenceServers }) ? undefined : larger;
}

/** Sums what all services and servers use in a second. */
function useOf(inputs: Inputs, costs: Costs, measured: Measured, layout: Layout): Resources {
  const servers = Math.max(1, layout.presenceServers);
  const atRest = Object.entries(layout.processes).map(([name, count]) => {
    // A process reads its streams on each presence server.
    const idle = mapResources(costs.idle[name] ?? {}, (resource, amount) =>
      resource.startsWith('presence ') ? amount * servers : amount,
    );
    return [count, idle] as const;
  });
  return sumOf(
    ...atRest,
    [inputs.connected, costs.link],
    [connectsPerSecond(inputs), costs.connect],
    [inputs.pushes * inputs.fanOut * inputs.away, costs.replayedRow],
    [inputs.pushes, pushCost(inputs, costs, measured, layout)],
  );
}

function pushCost(
  inputs: Inputs,
  costs: Costs,
  { providers }: Measured,
  { processes, presenceServers }: Layout,
): Resources {
  const { fanOut, away, provider, pushes, channel } = inputs;
  const connected = 1 - away - provider;
  const message = { 'delivery-worker cpu': providers[channel] };
  const perSecond = pushes / processes['delivery-worker'];
  if (fanOut === 1) {
    const single = singleAt(costs, perSecond);
    return sumOf(
      [connected, single],
      [away, costs.singleOffline],
      [provider, sumOf([1, withoutGateways(single)], [1, message])],
    );
  }
  // A gateway has a stream on each presence server.
  const gateways = processes['device-gateway'] * Math.max(1, presenceServers);
  const group = groupPush(costs, {
    connected: fanOut * connected,
    offline: fanOut * away,
    gateways,
    perSecond,
  });
  const viaProvider = sumOf([1, withoutGateways(costs.recipient)], [1, message]);
  return sumOf([1, group], [fanOut * provider, viaProvider]);
}

/** A recipient of a provider passes no gateway; its batch costs the api, the worker and MongoDB the same. */
function withoutGateways(resources: Resources): Resources {
  return mapResources(resources, (name, amount) =>
    name.startsWith('device-gateway ') || name.startsWith('presence ') ? 0 : amount,
  );
}

function connectsPerSecond({ connected, sessionHours }: Inputs): number {
  return connected / (sessionHours * HOUR_SECONDS);
}

function diskBytes(inputs: Inputs, { storage }: Measured): number {
  const pushesPerSecond = inputs.pushes * inputs.average;
  const kept = pushesPerSecond * inputs.retentionDays * DAY_SECONDS;
  const pending = pushesPerSecond * inputs.away * inputs.awayHours * HOUR_SECONDS;
  const ofRecipients = inputs.fanOut > 1 ? inputs.fanOut * storage.batchRecipient : 0;
  return (
    inputs.registered * (storage.device + inputs.topics * storage.subscription) +
    kept * (storage.push + inputs.payload + ofRecipients) +
    pending * inputs.fanOut * storage.inboxRow
  );
}

/** A gateway's memory grows with its connections; the other services' with work in progress, which is bounded. */
function memoryMb(
  name: ServiceName,
  inputs: Inputs,
  measured: Measured,
  processes: Layout['processes'],
): number {
  if (name !== 'device-gateway') return measured.storage.restMb[name] ?? 0;
  const connections = inputs.connected / processes['device-gateway'];
  const { plainBytes, tlsBytes } = measured.links;
  const tlsMb = inputs.tls ? (connections * (tlsBytes - plainBytes)) / MB : 0;
  return gatewayMb(measured, connections) + tlsMb + WAITING_BYTES / MB;
}

/** Points of the part `links` that the line is fitted to; the last one checks it. */
export const FITTED_POINTS = 3;

/** Returns the memory of one gateway process with connections without TLS, by the line through the fitted points. */
export function gatewayMb({ links }: Pick<Measured, 'links'>, count: number): number {
  const points = links.gatewayMb.slice(0, FITTED_POINTS);
  const mean = (pick: (point: { links: number; mb: number }) => number) =>
    points.reduce((sum, point) => sum + pick(point), 0) / points.length;
  const meanConnections = mean((point) => point.links);
  const meanMb = mean((point) => point.mb);
  const slope =
    mean((point) => (point.links - meanConnections) * (point.mb - meanMb)) /
    mean((point) => (point.links - meanConnections) ** 2);
  return Math.max(0, meanMb + slope * (count - meanConnections));
}
