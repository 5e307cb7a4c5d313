import { type Logger, pino } from 'pino';

export type { Logger };

/** JSON lines on standard output, one wide line per unit of work. Callers never pass keys, URLs or payloads. */
export function createLogger(service: string, level: string): Logger {
  return pino({ level, base: { service, pid: process.pid }, serializers: { err: describeError } });
}

/** Only what tells the fault: drivers hang whole commands, payloads included, onto their errors. */
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
