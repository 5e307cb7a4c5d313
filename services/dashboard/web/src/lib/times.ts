const UNITS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
];

const COMPACT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** A time as the API gives it: unix milliseconds or ISO 8601. */
export type Moment = number | string;

/** Converts a time of the API to unix milliseconds; NaN if it is none. */
export function toMs(moment: Moment): number {
  return typeof moment === 'number' ? moment : Date.parse(moment);
}

/** Formats a time in the viewer's zone with seconds: `2026-11-23 14:02:11`. */
export function formatLocal(moment: Moment, timeZone?: string): string {
  const ms = toMs(moment);
  if (Number.isNaN(ms)) return '–';
  // The Swedish form is ISO's order with a space.
  return new Date(ms).toLocaleString('sv-SE', timeZone === undefined ? {} : { timeZone });
}

/** Formats a time in UTC with milliseconds: `2026-11-23 13:02:11.480 UTC`. */
export function formatUtc(moment: Moment): string {
  const ms = toMs(moment);
  if (Number.isNaN(ms)) return '–';
  return `${new Date(ms).toISOString().slice(0, -1).replace('T', ' ')} UTC`;
}

/** Formats the time of the day: `14:02:11`. */
export function formatClock(moment: Moment, timeZone?: string): string {
  return formatLocal(moment, timeZone).slice(11);
}

/** Formats the distance to a time in its largest unit: `3 minutes ago`, `in 2 days`. */
export function formatRelative(moment: Moment, nowMs: number): string {
  const distance = toMs(moment) - nowMs;
  if (Number.isNaN(distance)) return '–';
  const format = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
  const [unit, length] = UNITS.find(([, ms]) => Math.abs(distance) >= ms) ?? ['second', 1_000];
  return format.format(Math.trunc(distance / length), unit);
}

/** Formats a duration with at most two units: `480 ms`, `2.4 s`, `3 min 20 s`, `2 d 4 h`. */
export function formatDuration(ms: number): string {
  if (!Number.isFinite(ms)) return '–';
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${trimZero((ms / 1_000).toFixed(ms < 10_000 ? 2 : 1))} s`;
  const [seconds, minutes, hours] = [1_000, 60_000, 3_600_000];
  if (ms < hours) return twoUnits(ms, minutes, 'min', seconds, 's');
  if (ms < 24 * hours) return twoUnits(ms, hours, 'h', minutes, 'min');
  return twoUnits(ms, 24 * hours, 'd', hours, 'h');
}

function twoUnits(ms: number, large: number, largeName: string, small: number, smallName: string) {
  const rest = Math.floor((ms % large) / small);
  const first = `${Math.floor(ms / large)} ${largeName}`;
  return rest === 0 ? first : `${first} ${rest} ${smallName}`;
}

function trimZero(text: string): string {
  return text.replace(/\.?0+$/, '');
}

/** Formats a whole number in few characters, for an axis: `1.2M`. */
export function formatCompact(count: number): string {
  return count < 10_000 ? formatCount(count) : COMPACT.format(count);
}

/** Formats a whole number with thin groups: `1 204 311`. */
export function formatCount(count: number): string {
  return count.toLocaleString('en').replaceAll(',', ' ');
}
