import { type Logger, pino } from 'pino';

export type { Logger };

/** JSON lines on standard output, one wide line per unit of work. Callers never pass keys, URLs or payloads. */
export function createLogger(service: string, level: string): Logger {
  return pino({ level, base: { service, pid: process.pid } });
}
