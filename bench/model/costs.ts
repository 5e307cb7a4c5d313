import { LIMITS } from '../../packages/core/src/limits.ts';
import type { LoadPoint, Measured, Resources } from './measured.ts';
import { amountOf, mapResources, sumOf, withoutNegative } from './resources.ts';

/** Costs of one unit each, fitted to the measured points. CPU in µs, the rest in bytes. */
export interface Costs {
  /** A push to one connected device, by pushes a second of one worker, in ascending order. */
  single: readonly { perSecond: number; used: Resources }[];
  /** A push to one offline device, its inbox row included. */
  singleOffline: Resources;
  /** A push to several devices, without its recipients, with its first batch. */
  group: Resources;
  /** Pushes a second of one worker at which `group` was measured. */
  groupPerSecond: number;
  /** Each further batch of a push. */
  batch: Resources;
  /** One gateway of a batch: a stream entry, and the results in a reply. */
  entry: Resources;
  /** A connected recipient of a push to several. */
  recipient: Resources;
  /** An offline recipient of a push to several: an inbox row. */
  offlineRecipient: Resources;
  /** A connect, with its record in MongoDB, without TLS. */
  connect: Resources;
  /** An inbox row that is sent after a connect. */
  replayedRow: Resources;
  /** An open connection, a second. */
  link: Resources;
  /** A process of each service at rest, a second, with what it costs the servers. */
  idle: Record<string, Resources>;
}

/** Parts of a push to several devices. */
type GroupCosts = Pick<
  Costs,
  'single' | 'group' | 'groupPerSecond' | 'entry' | 'recipient' | 'batch' | 'offlineRecipient'
>;

/** Points that the costs are fitted to. The others of the same run check them. */
export const FITTED = {
  singles: ['single at 50/s', 'single at 200/s', 'single at 600/s'],
  onOneGateway: 'group of 8 on one gateway',
  onAllGateways: 'group of 8',
  largeGroup: 'group of 1000',
  batches: 'push to 5000',
} as const;

/** Fits the costs, by differences between pairs of points. A cost below the noise is 0. */
export function fitCosts({ deliveries }: Pick<Measured, 'deliveries'>): Costs {
  const pointOf = (name: string): LoadPoint => {
    const point = deliveries.points[name];
    if (point === undefined) throw new Error(`no load was measured that is called ${name}`);
    return point;
  };
  const single = FITTED.singles.map((name) => ({
    perSecond: pointOf(name).perSecond ?? 0,
    used: withoutNegative(pointOf(name).used),
  }));
  const connect = withoutNegative(pointOf('connect').used);
  return {
    single,
    ...fitGroup(pointOf, single),
    singleOffline: withoutNegative(pointOf('single, offline').used),
    offlineRecipient: withoutNegative(pointOf('offline recipient').used),
    connect,
    replayedRow: withoutNegative(sumOf([1, pointOf('connect with a row').used], [-1, connect])),
    link: withoutNegative(deliveries.link),
    idle: fitIdle(deliveries),
  };
}

/**
 * Fits the costs of pushes to several devices. The cost of the push itself changes with the rate as that of a push to one
 * device, and nothing else does: so the rates of the points are made equal first.
 */
function fitGroup(
  pointOf: (name: string) => LoadPoint,
  single: Costs['single'],
): Pick<Costs, 'group' | 'groupPerSecond' | 'entry' | 'recipient' | 'batch'> {
  const one = pointOf(FITTED.onOneGateway);
  const all = pointOf(FITTED.onAllGateways);
  const large = pointOf(FITTED.largeGroup);
  const groupPerSecond = one.perSecond ?? 0;
  const entry = withoutNegative(
    scale(sumOf([1, all.used], [-1, one.used]), 1 / (gatewaysOf(all) - gatewaysOf(one))),
  );
  const slower = slowdown(single, groupPerSecond, large.perSecond ?? 0);
  const recipient = withoutNegative(
    mapResources(large.used, (name, amount) => {
      const factor = slower(name);
      const rest =
        amount -
        factor * amountOf(one.used, name) -
        (gatewaysOf(large) - factor * gatewaysOf(one)) * amountOf(entry, name);
      return rest / (recipientsOf(large) - factor * recipientsOf(one));
    }),
  );
  const group = withoutNegative(
    sumOf([1, one.used], [-gatewaysOf(one), entry], [-recipientsOf(one), recipient]),
  );
  const costs = { single, group, groupPerSecond, entry, recipient };
  return { ...costs, batch: fitBatch(pointOf(FITTED.batches), costs) };
}

/** Returns the cost of a push to one connected device at a rate: between two measured rates a power of the rate. */
export function singleAt({ single }: Pick<Costs, 'single'>, perSecond: number): Resources {
  const above = single.findIndex((point) => point.perSecond >= perSecond);
  const upper = single[above] ?? single.at(-1);
  const lower = single[Math.max(0, above - 1)];
  if (upper === undefined || lower === undefined) throw new Error('no rate was measured');
  if (above <= 0) return upper.used;
  const share = Math.log(perSecond / lower.perSecond) / Math.log(upper.perSecond / lower.perSecond);
  return mapResources(upper.used, (name, amount) => {
    const before = amountOf(lower.used, name);
    if (before === 0 || amount === 0) return (1 - share) * before + share * amount;
    return before ** (1 - share) * amount ** share;
  });
}

/**
 * Returns the cost of a push to several devices.
 *
 * @param push.connected recipients that are connected, spread evenly over the gateways
 * @param push.perSecond pushes a second of one worker
 */
export function groupPush(
  costs: GroupCosts,
  push: { connected: number; offline: number; gateways: number; perSecond: number },
): Resources {
  const recipients = push.connected + push.offline;
  const batches = Math.max(1, Math.ceil(recipients / LIMITS.batchRecipients));
  // No rate above the measured one is assumed to be cheaper.
  const perSecond = Math.min(push.perSecond, costs.groupPerSecond);
  const slower = slowdown(costs.single, costs.groupPerSecond, perSecond);
  return sumOf(
    [1, mapResources(costs.group, (name, amount) => amount * slower(name))],
    [batches - 1, costs.batch],
    [batches * countGateways(push.connected / batches, push.gateways), costs.entry],
    [push.connected, costs.recipient],
    [push.offline, costs.offlineRecipient],
  );
}

/** Returns how many times as much a push to one device costs at a rate as at another, for each resource. */
function slowdown(single: Costs['single'], from: number, to: number): (name: string) => number {
  const [before, after] = [singleAt({ single }, from), singleAt({ single }, to)];
  return (name) => {
    const amount = amountOf(before, name);
    return amount > 0 ? amountOf(after, name) / amount : 1;
  };
}

/** Returns how many different gateways hold some devices that are chosen at random. */
export function countGateways(devices: number, gateways: number): number {
  if (gateways <= 1) return Math.min(devices, gateways);
  return gateways * (1 - (1 - 1 / gateways) ** devices);
}

function fitBatch(
  point: LoadPoint,
  costs: Omit<GroupCosts, 'batch' | 'offlineRecipient'>,
): Resources {
  const batches = Math.ceil(recipientsOf(point) / LIMITS.batchRecipients);
  const withoutBatches = groupPush(
    { ...costs, batch: {}, offlineRecipient: {} },
    { connected: recipientsOf(point), offline: 0, gateways: gatewaysOf(point), perSecond: 0 },
  );
  return withoutNegative(scale(sumOf([1, point.used], [-1, withoutBatches]), 1 / (batches - 1)));
}

function scale(resources: Resources, factor: number): Resources {
  return mapResources(resources, (_, amount) => amount * factor);
}

const SERVICES = ['api', 'delivery-worker', 'device-gateway', 'scheduler'];

/** Divides what the servers use at rest among the services by the bytes that these send at rest, and their processes. */
function fitIdle({ idle, processes }: Measured['deliveries']): Costs['idle'] {
  const sentBy = (service: string) => Math.max(0, amountOf(idle, `${service} out`));
  const sent = SERVICES.reduce((sum, service) => sum + sentBy(service), 0);
  const ownerOf = (name: string) => SERVICES.find((service) => name.startsWith(`${service} `));
  return Object.fromEntries(
    SERVICES.map((service) => {
      const share = (name: string) => {
        const owner = ownerOf(name);
        if (owner === undefined) return sent > 0 ? sentBy(service) / sent : 0;
        return owner === service ? 1 : 0;
      };
      const count = processes[service] ?? 1;
      return [service, mapResources(idle, (name, amount) => (amount * share(name)) / count)];
    }),
  );
}

function gatewaysOf(point: LoadPoint): number {
  return point.gateways ?? 0;
}

function recipientsOf(point: LoadPoint): number {
  return point.recipients ?? 0;
}
