import type { Overview } from '../api/types.ts';

/** Ranges of the overview by the name that the URL holds. They end now. */
export const OVERVIEW_RANGES = [
  { value: '15m', label: 'Last 15 minutes', minutes: 15 },
  { value: '30m', label: 'Last 30 minutes', minutes: 30 },
  { value: '1h', label: 'Last hour', minutes: 60 },
] as const;

export type OverviewRange = (typeof OVERVIEW_RANGES)[number]['value'];

export const DEFAULT_RANGE: OverviewRange = '1h';

/** Checks that a text of a URL names a range. */
export function isOverviewRange(text: string | undefined): text is OverviewRange {
  return OVERVIEW_RANGES.some(({ value }) => value === text);
}

/** Returns the overview of a range: its minutes, and their latency. */
export function selectRange(overview: Overview, range: OverviewRange): Overview {
  const minutes = OVERVIEW_RANGES.find(({ value }) => value === range)?.minutes ?? 60;
  return {
    ...overview,
    minutes: overview.minutes.slice(-minutes),
    latency: overview.latencies[minutes] ?? overview.latency,
  };
}
