import { CHANNELS, type Channel } from '@carillon/core/channels';
import { createFiguresKeys } from './figures.ts';
import { readScript } from './read-script.ts';
import type { Redis } from './redis.ts';

/** Maximum circuits that Redis holds, and that one process reports. */
export const MAX_OPEN_CIRCUITS = 100;
/** Lifetime of a report. Processes repeat theirs every 5 s, so two may be lost. */
const REPORT_MS = 15_000;

const REPORT_CIRCUITS = readScript('report-circuits');

/** A provider to which nothing but probes is sent for an app, because it fails or refuses. */
export interface OpenCircuit {
  app: string;
  channel: Channel;
  /** Unix milliseconds. */
  since: number;
  /** The provider's last error. */
  reason: string;
}

/** Adds the open circuits of a process to those of the installation, in one command. Without any nothing is sent. */
export async function writeOpenCircuits(
  redis: Redis,
  circuits: Iterable<OpenCircuit>,
): Promise<void> {
  const args: (string | number)[] = [];
  for (const { app, channel, since, reason } of circuits) {
    args.push(`${app}:${channel}`, since, reason);
    if (args.length === 3 * MAX_OPEN_CIRCUITS) break;
  }
  if (args.length === 0) return;
  const { circuits: key } = createFiguresKeys(redis);
  await redis.eval(REPORT_CIRCUITS, 1, key, REPORT_MS, MAX_OPEN_CIRCUITS, ...args);
}

/**
 * Reads the open circuits of all processes, at most {@link MAX_OPEN_CIRCUITS}, the first opened first. A circuit that has
 * closed is left out after 15 s.
 *
 * @throws if Redis fails
 */
export async function readOpenCircuits(redis: Redis): Promise<OpenCircuit[]> {
  const all = await redis.hgetall(createFiguresKeys(redis).circuits);
  return Object.entries(all)
    .flatMap(([field, value]) => decodeCircuit(field, value) ?? [])
    .sort((a, b) => a.since - b.since);
}

function decodeCircuit(field: string, value: string): OpenCircuit | undefined {
  const [app = '', name] = field.split(':');
  const channel = CHANNELS.find((one) => one === name);
  const [, since, reason = ''] = /^(\d+)\|\d+\|(.*)$/s.exec(value) ?? [];
  return channel && since ? { app, channel, since: Number(since), reason } : undefined;
}
