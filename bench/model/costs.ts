import { LIMITS } from '../../packages/core/src/limits.ts';
import type { LoadPoint, Measured, Resources } from './measured.ts';
import { sumOf, withoutNegative } from './resources.ts';

/** Costs of one unit each, fitted to the measured points. CPU in µs, the rest in bytes. */
export interface Costs {
  /** A push to one connected device, by pushes a second of one worker, in ascending order. */
  single: readonly { perSecond: number; used: Resources }[];
  /** A push to one offline device, its inbox row included. */
  singleOffline: Resources;
  /** A push to several devices, without its recipients, with its first batch. */
  group: Resources;
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
  /** A process of each service at rest, a second, with its part of what the servers use. */
  idle: Record<string, Resources>;
}

/** Points that the costs are fitted to. The others of the same run check them. */
const FITTED = {
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
  const one = pointOf(FITTED.onOneGateway);
  const all = pointOf(FITTED.onAllGateways);
  const large = pointOf(FITTED.largeGroup);
  const entry = differencePerUnit(all, one, gatewaysOf);
  const recipient = differencePerUnit(large, all, recipientsOf);
  const group = withoutNegative(
    sumOf([1, one.used], [-gatewaysOf(one), entry], [-recipientsOf(one), recipient]),
  );
  const batch = fitBatch(pointOf(FITTED.batches), { group, entry, recipient });
  const connect = withoutNegative(pointOf('connect').used);
  return {
    single: FITTED.singles.map((name) => ({
      perSecond: pointOf(name).perSecond ?? 0,
      used: withoutNegative(pointOf(name).used),
    })),
    singleOffline: withoutNegative(pointOf('single, offline').used),
    group,
    batch,
    entry,
    recipient,
    offlineRecipient: withoutNegative(pointOf('offline recipient').used),
    connect,
    replayedRow: withoutNegative(sumOf([1, pointOf('connect with a row').used], [-1, connect])),
    link: withoutNegative(deliveries.link),
    idle: fitIdle(deliveries),
  };
}

/** Returns the cost of a push to one connected device at a rate: between two measured rates by the rate's logarithm. */
export function singleAt({ single }: Pick<Costs, 'single'>, perSecond: number): Resources {
  const above = single.findIndex((point) => point.perSecond >= perSecond);
  const upper = single[above] ?? single.at(-1);
  const lower = single[Math.max(0, above - 1)];
  if (upper === undefined || lower === undefined) throw new Error('no rate was measured');
  if (above <= 0) return upper.used;
  const share = Math.log(perSecond / lower.perSecond) / Math.log(upper.perSecond / lower.perSecond);
  return sumOf([1 - share, lower.used], [share, upper.used]);
}

/**
 * Returns the cost of a push to several devices.
 *
 * @param push.connected recipients that are connected, spread evenly over the gateways
 */
export function groupPush(
  costs: Costs,
  push: { connected: number; offline: number; gateways: number },
): Resources {
  const recipients = push.connected + push.offline;
  const batches = Math.max(1, Math.ceil(recipients / LIMITS.batchRecipients));
  return sumOf(
    [1, costs.group],
    [batches - 1, costs.batch],
    [batches * countGateways(push.connected / batches, push.gateways), costs.entry],
    [push.connected, costs.recipient],
    [push.offline, costs.offlineRecipient],
  );
}

/** Returns how many different gateways hold some devices that are chosen at random. */
export function countGateways(devices: number, gateways: number): number {
  if (gateways <= 1) return Math.min(devices, gateways);
  return gateways * (1 - (1 - 1 / gateways) ** devices);
}

function differencePerUnit(
  more: LoadPoint,
  less: LoadPoint,
  count: (point: LoadPoint) => number,
): Resources {
  const factor = 1 / (count(more) - count(less));
  return withoutNegative(sumOf([factor, more.used], [-factor, less.used]));
}

function fitBatch(
  point: LoadPoint,
  { group, entry, recipient }: Pick<Costs, 'group' | 'entry' | 'recipient'>,
): Resources {
  const batches = Math.ceil(recipientsOf(point) / LIMITS.batchRecipients);
  const rest = sumOf(
    [1, point.used],
    [-1, group],
    [-batches * gatewaysOf(point), entry],
    [-recipientsOf(point), recipient],
  );
  return withoutNegative(sumOf([1 / (batches - 1), rest]));
}

/** Divides what the servers use at rest evenly among the processes. */
function fitIdle({ idle, processes }: Measured['deliveries']): Costs['idle'] {
  const services = ['api', 'delivery-worker', 'device-gateway', 'scheduler'];
  const all = services.reduce((sum, service) => sum + (processes[service] ?? 0), 0);
  return Object.fromEntries(
    services.map((service) => {
      const own = Object.entries(idle).flatMap(([name, amount]) => {
        if (name.startsWith(`${service} `)) return [[name, amount / (processes[service] ?? 1)]];
        return services.some((other) => name.startsWith(`${other} `)) ? [] : [[name, amount / all]];
      });
      return [service, Object.fromEntries(own) as Resources];
    }),
  );
}

function gatewaysOf(point: LoadPoint): number {
  return point.gateways ?? 0;
}

function recipientsOf(point: LoadPoint): number {
  return point.recipients ?? 0;
}
