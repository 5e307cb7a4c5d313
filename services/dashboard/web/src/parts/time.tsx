import { useEffect, useState } from 'react';
import { formatLocal, formatRelative, formatUtc, type Moment, toMs } from '../lib/times.ts';

const REFRESH_MS = 10_000;

/** Shows a time in the viewer's zone, and in UTC on hover. */
export function Time({ at }: { at: Moment | undefined | null }) {
  if (at === undefined || at === null) return <span>–</span>;
  return (
    <time dateTime={toIso(at)} title={formatUtc(at)}>
      {formatLocal(at)}
    </time>
  );
}

/** Shows how long ago a time was, and the time itself on hover. */
export function Ago({ at }: { at: Moment | undefined | null }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  if (at === undefined || at === null) return <span>–</span>;
  return (
    <time dateTime={toIso(at)} title={`${formatLocal(at)} (${formatUtc(at)})`}>
      {formatRelative(at, now)}
    </time>
  );
}

function toIso(at: Moment): string {
  const ms = toMs(at);
  return Number.isNaN(ms) ? '' : new Date(ms).toISOString();
}
