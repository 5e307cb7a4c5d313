/** Ranges that end now, by the name that the URL holds. */
export const RANGES = {
  '15m': 15 * 60_000,
  '1h': 3_600_000,
  '6h': 6 * 3_600_000,
  '24h': 86_400_000,
  '7d': 7 * 86_400_000,
  '30d': 30 * 86_400_000,
} as const;
export type RangeName = keyof typeof RANGES;

/** Time range in a URL: a name, or moments in unix milliseconds. */
export interface RangeSearch {
  range?: string | undefined;
  from?: string | undefined;
  to?: string | undefined;
}

/** Time range of a request, unix milliseconds; an absent end is open. */
export interface TimeRange {
  from?: number;
  to?: number;
}

/** The beginning of a named range moves in such steps, so that a page does not send a request with each render. */
const STEP_MS = 10_000;

export function isRangeName(text: string | undefined): text is RangeName {
  return text !== undefined && Object.hasOwn(RANGES, text);
}

/** Reads the range of a URL. A named range moves with the clock; anything unreadable is left out. */
export function readRange(search: RangeSearch, nowMs: number): TimeRange {
  if (isRangeName(search.range)) {
    return { from: Math.floor((nowMs - RANGES[search.range]) / STEP_MS) * STEP_MS };
  }
  const from = readMoment(search.from);
  const to = readMoment(search.to);
  return { ...(from !== undefined && { from }), ...(to !== undefined && { to }) };
}

function readMoment(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/** Converts a moment to the text of an input of type datetime-local, which has the viewer's zone. */
export function toInputText(ms: number | undefined): string {
  if (ms === undefined) return '';
  const date = new Date(ms);
  const two = (part: number) => String(part).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day}T${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** Converts the text of an input of type datetime-local to a moment for the URL; undefined for none. */
export function fromInputText(text: string): string | undefined {
  const ms = new Date(text).getTime();
  return Number.isNaN(ms) ? undefined : String(ms);
}
