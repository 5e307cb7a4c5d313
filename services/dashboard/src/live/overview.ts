import { type Problem, selectProblems } from '@carillon/admin/health';
import type { BacklogFigures } from '@carillon/presence/figures';
import type { FiguresSnapshot } from '@carillon/presence/figures-reader';
import { LATENCY_BOUNDS_MS } from '@carillon/runtime/latency-histogram';
import type { RefusalView } from '@carillon/store/credentials';
import { mayUseAccount, type SessionOperator } from '../http/route.ts';
import { type AppsState, listTopApps, type OverviewApp, sumAccounts } from './apps.ts';

/** Latencies from acceptance to receipt of connected devices; null without a receipt. */
export interface LatencySummary {
  p50Ms: number | null;
  p99Ms: number | null;
}

/** Counts of one minute, summed over all processes, as the overview shows them. */
export interface OverviewMinute {
  at: number;
  accepted: number;
  delivered: number;
  sent: number;
  /** Recipients with any other outcome. */
  failed: Record<string, number>;
  /** Of `failed.failed`, by reason. */
  failureReasons: Record<string, number>;
  latency: LatencySummary;
}

/** The overview of the installation, or what one operator may see of it. */
export interface Overview {
  readAt: number;
  /** Faults that delay deliveries; an operator of some accounts gets those of their apps. */
  problems: Problem[];
  /**
   * `accounts`: the operator is of some accounts, and gets their apps and refused credentials. The minutes are the sums
   * of these apps, with `failed` as their only other outcome, and without latencies.
   */
  scope: 'installation' | 'accounts';
  /** Time of the first figures; null without any. */
  since: number | null;
  /** The last minutes, the current one included. */
  minutes: OverviewMinute[];
  /** The ten apps with the most pending work, then the most pushes. */
  apps: OverviewApp[];
  /** Of all these minutes. */
  latency: LatencySummary;
  /** Of the last 15, 30 and 60 minutes, by their number. */
  latencies: Record<number, LatencySummary>;
  /** Empty while MongoDB does not respond. */
  channels: BacklogFigures[];
  gateways: { id: string; online: number }[];
  /** Credentials that their provider has refused in the last hour and not accepted since. */
  refusedCredentials: {
    app: string;
    appName: string;
    channel: string;
    message: string;
    refusedAt: number;
  }[];
  /** Time at which the refused credentials were read; null if MongoDB has not responded yet. */
  refusedCredentialsAt: number | null;
}

/** Minutes of the ranges that the pages offer. */
const RANGES = [15, 30, 60];
const NO_LATENCY: LatencySummary = { p50Ms: null, p99Ms: null };
const NO_DETAILS = { failureReasons: {}, latency: NO_LATENCY };

/** Latest values of the shared reader. */
export interface LiveState {
  figures: FiguresSnapshot;
  apps: AppsState;
  refusals: readonly RefusalView[];
  refusalsAt: number | null;
  problems: readonly Problem[];
}

/** Builds the overview of the last `minutes` for an operator. */
export function buildOverview(
  { figures, apps, refusals, refusalsAt, problems }: LiveState,
  operator: SessionOperator,
  minutes: number,
): Overview {
  const { accounts } = operator;
  const isWhole = accounts === 'all';
  const summary = isWhole ? summarizeOnce(figures) : undefined;
  const shown = summary?.minutes ?? toMinutesOf(figures, apps, isWhole ? [] : accounts);
  return {
    readAt: Math.round(figures.readAt),
    problems: isWhole
      ? [...problems]
      : selectProblems(problems, (account) => mayUseAccount(operator, account)),
    scope: isWhole ? 'installation' : 'accounts',
    since: figures.since === undefined ? null : Math.round(figures.since),
    minutes: shown.slice(-minutes),
    apps: listTopApps(apps, operator),
    latency: isWhole ? summarizeLast(figures, minutes) : NO_LATENCY,
    latencies: summary?.latencies ?? {},
    channels: isWhole ? figures.channels : [],
    gateways: isWhole ? figures.gateways.map(({ gateway: id, online }) => ({ id, online })) : [],
    refusedCredentials: refusals
      .filter(({ account }) => mayUseAccount(operator, account))
      .map(({ app, appName, channel, environment, detail, refusedAt }) => ({
        ...{ app, appName, channel },
        message: environment === undefined ? detail : `${detail} (${environment})`,
        refusedAt: refusedAt.getTime(),
      })),
    refusedCredentialsAt: refusalsAt,
  };
}

/** Returns the minutes of some accounts. */
function toMinutesOf(
  { minutes }: FiguresSnapshot,
  apps: AppsState,
  accounts: readonly string[],
): OverviewMinute[] {
  const sumAt = sumAccounts(apps, accounts);
  return minutes.map(({ at }) => {
    const { accepted = 0, delivered = 0, sent = 0, failed } = sumAt(at);
    const others: Record<string, number> = failed === undefined ? {} : { failed };
    return { ...{ at, accepted, delivered, sent }, failed: others, ...NO_DETAILS };
  });
}

interface FiguresSummary {
  minutes: OverviewMinute[];
  latencies: Record<number, LatencySummary>;
}

const summaryOf = new WeakMap<FiguresSnapshot, FiguresSummary>();

/** Summarizes a snapshot, once for all viewers. */
function summarizeOnce(figures: FiguresSnapshot): FiguresSummary {
  const known = summaryOf.get(figures);
  if (known !== undefined) return known;
  const summary = {
    minutes: figures.minutes.map(toMinute),
    latencies: Object.fromEntries(RANGES.map((range) => [range, summarizeLast(figures, range)])),
  };
  summaryOf.set(figures, summary);
  return summary;
}

function summarizeLast({ minutes }: FiguresSnapshot, count: number): LatencySummary {
  return summarize(minutes.slice(-count).map(({ latencies }) => latencies));
}

function toMinute(minute: FiguresSnapshot['minutes'][number]): OverviewMinute {
  const outcomes: Record<string, number> = {};
  for (const counts of Object.values(minute.ended))
    for (const [outcome, count] of Object.entries(counts))
      outcomes[outcome] = (outcomes[outcome] ?? 0) + count;
  const { delivered = 0, sent = 0, ...failed } = outcomes;
  const { at, accepted, failures: failureReasons } = minute;
  const latency = summarize([minute.latencies]);
  return { at, accepted, delivered, sent, failed, failureReasons, latency };
}

function summarize(minutes: readonly ReadonlyMap<number, number>[]): LatencySummary {
  const counts = new Map<number, number>();
  for (const latencies of minutes)
    for (const [boundMs, count] of latencies)
      counts.set(boundMs, (counts.get(boundMs) ?? 0) + count);
  return { p50Ms: estimateQuantile(counts, 0.5), p99Ms: estimateQuantile(counts, 0.99) };
}

/**
 * Estimates a quantile in milliseconds, as Prometheus's histogram_quantile: evenly spread within its bucket. Above the
 * last bound it is that bound.
 *
 * @param counts durations by the upper bound of their bucket; empty buckets may be absent
 */
export function estimateQuantile(
  counts: ReadonlyMap<number, number>,
  quantile: number,
): number | null {
  const all = [...new Set([...LATENCY_BOUNDS_MS, ...counts.keys()])].sort((a, b) => a - b);
  const total = all.reduce((sum, bound) => sum + (counts.get(bound) ?? 0), 0);
  if (total === 0) return null;
  let below = 0;
  let lower = 0;
  for (const bound of all) {
    const count = counts.get(bound) ?? 0;
    if (count > 0 && below + count >= quantile * total) {
      if (bound === Number.POSITIVE_INFINITY) return lower;
      return Math.round(lower + ((bound - lower) * (quantile * total - below)) / count);
    }
    below += count;
    lower = bound;
  }
  return lower;
}
