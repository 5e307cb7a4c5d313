import type { OverviewMinute } from '../api/types.ts';

/** Adds up counts by name. */
function addCounts(all: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const counts of all) {
    for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count;
  }
  return sums;
}

/** Adds up the minutes of an overview; `failed` are the recipients with this outcome, as those of each app. */
export function sumMinutes(minutes: readonly OverviewMinute[]) {
  const sum = (read: (minute: OverviewMinute) => number) =>
    minutes.reduce((total, minute) => total + read(minute), 0);
  return {
    accepted: sum(({ accepted }) => accepted),
    delivered: sum(({ delivered }) => delivered),
    sent: sum(({ sent }) => sent),
    failed: sum(({ failed }) => failed.failed ?? 0),
    others: addCounts(minutes.map(({ failed }) => failed)),
    reasons: addCounts(minutes.map(({ failureReasons }) => failureReasons)),
  };
}
