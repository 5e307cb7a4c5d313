import type { Capacity } from './capacity.ts';
import type { CheckedPoint } from './check.ts';
import type { Costs } from './costs.ts';
import type { Limit } from './limits.ts';
import { amountOf } from './resources.ts';

/** Rows of cells; the first row is the head. */
export type Table = readonly (readonly string[])[];

export function tabulateLoad({ deliveriesPerSecond, connectsPerSecond }: Capacity): Table {
  return [
    ['load', 'a second'],
    ['deliveries', formatCount(deliveriesPerSecond)],
    ['connects', formatCount(connectsPerSecond)],
  ];
}

export function tabulateServices({ services }: Capacity): Table {
  return [
    ['service', 'processes', 'cores at the peak', 'memory of each'],
    ...Object.entries(services).map(([name, { processes, cores, mbEach }]) => [
      name,
      formatCount(processes),
      format(cores),
      `${formatCount(mbEach)} MB`,
    ]),
  ];
}

export function tabulateServers({ mongodb, redis }: Capacity): Table {
  const shards = mongodb.shards > 1 ? `${mongodb.shards} shards or installations` : 'one primary';
  return [
    ['server', 'number', 'cores at the peak', 'storage'],
    [
      'MongoDB',
      shards,
      format(mongodb.cores),
      `disk ${format(mongodb.diskGb)} GB, journal ${format(mongodb.journalMb)} MB/s`,
    ],
    [
      'Redis',
      formatCount(redis.servers),
      `queues ${format(redis.queueCores)}, presence ${format(redis.presenceCores)}`,
      `memory ${format(redis.memoryGb)} GB`,
    ],
  ];
}

export function tabulateNetwork({ network }: Capacity): Table {
  return [
    ['network of all processes', 'in', 'out'],
    ...Object.entries(network).map(([name, rates]) => [
      nameServer(name),
      `${format(rates.in)} MB/s`,
      `${format(rates.out)} MB/s`,
    ]),
  ];
}

export function tabulateLimits(limits: readonly Limit[]): Table {
  return [
    ['limit, the next one first', 'needed', 'available', 'the load fits', 'what lifts it'],
    ...limits.map(({ name, needed, available, unit, headroom, lift }) => [
      name,
      `${format(needed)} ${unit}`,
      `${format(available)} ${unit}`,
      `${format(headroom)} times`,
      lift,
    ]),
  ];
}

export const VARIANT_HEAD = [
  'change',
  'cores of all services',
  'gateways',
  'cores of MongoDB',
  'Redis servers',
  'next limit',
  'the load fits',
];

/** A row of {@link VARIANT_HEAD}. */
export function tabulateVariant(
  change: string,
  { services, mongodb, redis }: Capacity,
  [next]: readonly Limit[],
): string[] {
  const cores = Object.values(services).reduce((sum, service) => sum + service.cores, 0);
  return [
    change,
    format(cores),
    formatCount(services['device-gateway'].processes),
    format(mongodb.cores),
    formatCount(redis.servers),
    next?.name ?? '',
    `${format(next?.headroom ?? Number.NaN)} times`,
  ];
}

/** Describes in a sentence the next limit and what lifts it. */
export function describeNextLimit([next]: readonly Limit[]): string {
  if (next === undefined) return '';
  const { name, headroom, lift } = next;
  return headroom < 1
    ? `The load is above a limit: ${name}. What lifts it: ${lift}.`
    : `The next limit, at ${format(headroom)} times this load: ${name}. What lifts it: ${lift}.`;
}

export function tabulateCheck(points: readonly CheckedPoint[]): Table {
  return [
    ['measured point', 'measured', 'predicted', 'error'],
    ...points.map(({ what, unit, measured, predicted, error }) => [
      what,
      `${format(measured)} ${unit}`,
      `${format(predicted)} ${unit}`,
      `${error < 0 ? '−' : '+'}${Math.abs(error * 100).toFixed(0)} %`,
    ]),
  ];
}

const COST_COLUMNS = ['api', 'delivery-worker', 'device-gateway', 'redis', 'presence', 'mongodb'];

/** The CPU time of each unit, in µs, and its part of the journal, in bytes. */
export function tabulateCosts(costs: Costs): Table {
  const singles = costs.single.map(
    ({ perSecond, used }) => [`push to one device, ${perSecond} a second`, used] as const,
  );
  const units = [
    ...singles,
    ['push to one device that is offline', costs.singleOffline] as const,
    ['push to several devices', costs.group] as const,
    ['each further batch', costs.batch] as const,
    ['each gateway of a batch', costs.entry] as const,
    ['each connected recipient', costs.recipient] as const,
    ['each offline recipient', costs.offlineRecipient] as const,
    ['connect', costs.connect] as const,
    ['inbox row sent after a connect', costs.replayedRow] as const,
  ];
  return [
    ['µs of CPU', ...COST_COLUMNS.map(nameServer), 'journal, bytes'],
    ...units.map(([name, used]) => [
      name,
      ...COST_COLUMNS.map((column) => format(amountOf(used, `${column} cpu`))),
      format(amountOf(used, 'mongodb journal')),
    ]),
  ];
}

function nameServer(name: string): string {
  if (name === 'redis') return 'Redis of the queues';
  if (name === 'presence') return 'Redis of presence';
  return name === 'mongodb' ? 'MongoDB' : name;
}

/** Aligns the columns for a terminal. */
export function toText(table: Table): string {
  const widths = (table[0] ?? []).map((_, column) =>
    Math.max(...table.map((row) => row[column]?.length ?? 0)),
  );
  return table
    .map((row) => `  ${row.map((cell, n) => cell.padEnd(widths[n] ?? 0)).join('  ')}`.trimEnd())
    .join('\n');
}

export function toMarkdown(table: Table): string {
  const [head = [], ...rows] = table;
  const lines = [head, head.map(() => '---'), ...rows];
  return lines
    .map((cells) =>
      `| ${cells.join(' | ')} |`.replaceAll('| --- ', '|---').replace('--- |', '---|'),
    )
    .join('\n');
}

function formatCount(n: number): string {
  return Math.round(n).toLocaleString('en');
}

function format(n: number): string {
  if (!Number.isFinite(n)) return 'any number of';
  if (n >= 100) return formatCount(n);
  return n >= 10 ? n.toFixed(1) : n.toFixed(2);
}
