import { CHANNELS, type Channel } from '@carillon/core/channels';
import { hashTag, type Redis } from './redis.ts';

/*
 * The figures that the console shows, in Redis: a hash for each minute, to which all processes add. Counters are sums;
 * gauges hold the last value and its time. All of it can be lost.
 */

/** TTL of the hash of a minute. */
export const FIGURES_TTL_SECONDS = 86_400;
/** TTL of the hash of the apps in a minute: viewers read one hour of them. */
export const APPS_TTL_SECONDS = 3_900;
/** TTL of the pending work by app, which a scheduler writes every 5 s while there is a viewer. */
export const APP_BACKLOG_TTL_SECONDS = 15;
/** TTL of the `watched` key: the figures count as watched for this long after a viewer was seen. */
export const WATCHED_TTL_SECONDS = 15;
/** Maximum age of a gauge. An older one belongs to a process that has ended or can't reach Redis. */
export const MAX_GAUGE_AGE_MS = 15_000;
/** Length of a minute, and of the range that one hash holds. */
export const MINUTE_MS = 60_000;

/** Creates the names of the keys. */
export function createFiguresKeys(redis: Redis) {
  const group = hashTag(redis, 'figures') ?? 'figures';
  return {
    /** Exists while the figures have a viewer. */
    watched: `${group}:watched`,
    /** Time of the first figures that Redis has, in milliseconds. */
    since: `${group}:since`,
    /** The one scheduler that counts the pending work. */
    backlogReader: `${group}:backlog-reader`,
    /** Hash of the open circuits. */
    circuits: `${group}:circuits`,
    /** Hash of a minute. */
    minute: (minute: number): string => `${group}:${minute}`,
    /** Hash of the apps in a minute. */
    apps: (minute: number): string => `${group}:apps:${minute}`,
    /** Pending work by app, as JSON. */
    appBacklog: `${group}:app-backlog`,
    /** Number of the last write that was added for a process. */
    applied: (writer: string): string => `${group}:applied:${writer}`,
  };
}

/** Names of the hash's fields: counters, then gauges. */
export const FIELDS = {
  accepted: 'accepted',
  ended: (channel: string, outcome: string): string => `ended:${channel}:${outcome}`,
  taken: (queue: string): string => `taken:${queue}`,
  failure: (reason: string): string => `failure:${reason}`,
  /** By its bound and not its number, so that releases with other buckets add up. */
  latency: (boundMs: number): string => `latency:${boundMs}`,
  online: (gateway: string): string => `online:${gateway}`,
  backlog: (channel: string): string => `backlog:${channel}`,
} as const;

/** Pending work of one channel. */
export interface BacklogFigures {
  channel: Channel;
  pending: number;
  oldestMs: number;
  deferred: number;
}

/** Pending work of one app. */
export interface AppBacklogFigures {
  app: string;
  pending: number;
  /** True if `pending` is a lower bound: counting it exactly would read too much. */
  isAtLeast: boolean;
  oldestMs: number;
}

/** Devices that are connected to one gateway. */
export interface GatewayLoad {
  gateway: string;
  online: number;
}

/** Counts of one minute, summed over all processes. */
export interface MinuteFigures {
  accepted: number;
  /** Recipients that have ended, by channel, then by outcome. */
  ended: Record<string, Record<string, number>>;
  /** Failed recipients by reason. */
  failures: Record<string, number>;
  /** Jobs that workers have taken, by queue. */
  taken: Record<string, number>;
  /** Receipts by the upper bound of their latency in milliseconds. */
  latencies: Map<number, number>;
  gateways: (GatewayLoad & { at: number })[];
  channels: (BacklogFigures & { at: number })[];
}

/** Encodes the backlog of a channel as the value of a gauge. */
export function encodeBacklog({ pending, oldestMs, deferred }: BacklogFigures): string {
  return [pending, oldestMs, deferred].map(Math.round).join(',');
}

/** Decodes a minute's hash; fields of a newer release are left out. */
export function decodeMinute(hash: Readonly<Record<string, string>>): MinuteFigures {
  const figures: MinuteFigures = {
    accepted: 0,
    ended: {},
    failures: {},
    taken: {},
    latencies: new Map(),
    gateways: [],
    channels: [],
  };
  for (const [field, value] of Object.entries(hash)) {
    const colon = field.indexOf(':');
    const kind = colon < 0 ? field : field.slice(0, colon);
    addField(figures, kind, field.slice(colon + 1), value);
  }
  return figures;
}

function addField(figures: MinuteFigures, kind: string, name: string, value: string): void {
  if (kind === 'accepted') figures.accepted = Number(value);
  else if (kind === 'taken') figures.taken[name] = Number(value);
  else if (kind === 'failure') figures.failures[name] = Number(value);
  else if (kind === 'latency') figures.latencies.set(Number(name), Number(value));
  else if (kind === 'ended') {
    const [channel = '', outcome = ''] = name.split(':');
    figures.ended[channel] = { ...figures.ended[channel], [outcome]: Number(value) };
  } else if (kind === 'online') {
    const [online, at] = value.split('|').map(Number);
    figures.gateways.push({ gateway: name, online: online ?? 0, at: at ?? 0 });
  } else if (kind === 'backlog') {
    const channel = CHANNELS.find((one) => one === name);
    if (channel !== undefined) figures.channels.push(decodeBacklog(channel, value));
  }
}

function decodeBacklog(channel: Channel, value: string): BacklogFigures & { at: number } {
  const [counts = '', at] = value.split('|');
  const [pending = 0, oldestMs = 0, deferred = 0] = counts.split(',').map(Number);
  return { channel, pending, oldestMs, deferred, at: Number(at) };
}
