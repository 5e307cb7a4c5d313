import { type Logger, pino } from 'pino';
import { openLogDestination } from './log-destination.ts';

export type { Logger };

/** Creates a logger that writes JSON lines to standard output. Callers never pass keys, URLs or payloads. */
export function createLogger(service: string, level: string): Logger {
  return pino(
    {
      level,
      base: { service, pid: process.pid },
      timestamp: createTimestamp(),
      serializers: { err: describeError },
    },
    openLogDestination(),
  );
}

/**
 * Creates the function that returns the time of a line, as ISO 8601, which people and log collectors can read. The date
 * is formatted once a second: doing it for each line would cost as much as the rest of a short one.
 *
 * @param now milliseconds since 1970
 */
export function createTimestamp(now: () => number = Date.now): () => string {
  let second = Number.NaN;
  let prefix = '';
  return () => {
    const time = now();
    const currentSecond = Math.floor(time / 1_000);
    if (currentSecond !== second) {
      second = currentSecond;
      prefix = `,"time":"${new Date(second * 1_000).toISOString().slice(0, -'000Z'.length)}`;
    }
    return `${prefix}${String(time - second * 1_000).padStart(3, '0')}Z"`;
  };
}

/** Selects the known fields of an error: drivers attach whole commands, with payloads, to their errors. */
function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, stack, cause } = error;
  const code = 'code' in error ? { code: error.code } : {};
  return {
    name,
    message,
    ...code,
    stack,
    ...(cause !== undefined && { cause: describeError(cause) }),
  };
}
