import { readFileSync } from 'node:fs';
import { z } from 'zod';

/** The environment is wrong; the message lists every fault. */
export class EnvError extends Error {}

/**
 * Reads a service's settings from the environment, once, all faults at once.
 * Any NAME may instead be given as NAME_FILE, the path of a file with the value (mounted secrets).
 */
export function readEnv<S extends z.ZodObject>(schema: S, env: NodeJS.ProcessEnv): z.infer<S> {
  const given: Record<string, string> = {};
  for (const name of Object.keys(schema.shape)) {
    const value = env[name] ?? fromFile(env[`${name}_FILE`]);
    if (value !== undefined && value !== '') given[name] = value;
  }
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  throw new EnvError(`Wrong environment:\n${z.prettifyError(parsed.error)}`);
}

function fromFile(path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    throw new EnvError(`Wrong environment:\nthe file ${path} can't be read`);
  }
}

/** Where a server listens: an address, or a socket that whoever started the process has opened. */
export type Listen = { host: string; port: number } | { fd: number };

/** Reads `host:port` or `fd:N`. */
export const listenAt = z.string().transform((text, context): Listen => {
  const fd = /^fd:(\d+)$/.exec(text)?.[1];
  if (fd !== undefined) return { fd: Number(fd) };
  const [, host, port] = /^(.+):(\d+)$/.exec(text) ?? [];
  if (host !== undefined && port !== undefined && Number(port) < 65_536) {
    return { host, port: Number(port) };
  }
  context.addIssue({ code: 'custom', message: 'write host:port, or fd:N for an open socket' });
  return z.NEVER;
});

/** What every service reads. */
export const commonEnv = {
  /** Least serious level that is logged. */
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace']).default('info'),
  /** The operators' port: /livez, /readyz, /metrics. Not for the public. */
  OPS_LISTEN: listenAt.default({ host: '127.0.0.1', port: 9000 }),
};

/** Where the data are. */
export const mongodbEnv = {
  /** MongoDB with the database's name, for instance mongodb://db:27017/carillon. */
  MONGODB_URI: z.string().regex(/^mongodb(\+srv)?:\/\//, 'write mongodb://host:port/database'),
};

/** Where the queues and, unless told otherwise, presence are. */
export const redisEnv = {
  /** Redis or Valkey with maxmemory-policy noeviction, for instance redis://cache:6379. */
  REDIS_URL: z.string().regex(/^rediss?:\/\//, 'write redis://host:port'),
};

/** The second role of Redis: who is connected where, and the hand-over to gateways. */
export const presenceEnv = {
  /** Defaults to REDIS_URL. */
  PRESENCE_REDIS_URL: z
    .string()
    .regex(/^rediss?:\/\//, 'write redis://host:port')
    .optional(),
};
