import { destination, type Logger, pino, stdTimeFunctions } from 'pino';

export type { Logger };

/**
 * Creates a logger that writes JSON lines to standard output, in the background; at the exit of the process and after a
 * fatal line, at once. Callers never pass keys, URLs or payloads.
 */
export function createLogger(service: string, level: string): Logger {
  return pino(
    {
      level,
      base: { service, pid: process.pid },
      timestamp: stdTimeFunctions.isoTime,
      serializers: { err: describeError },
    },
    destination({ sync: false }),
  );
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
