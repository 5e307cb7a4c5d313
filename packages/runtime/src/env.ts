import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { parseRedisUrl } from '@carillon/core/redis-url';
import { SettingsError } from '@carillon/core/settings-error';
import { findContactFault } from '@carillon/core/web-push-contact';
import { type AllowedPushHosts, parsePushHosts } from '@carillon/core/web-push-endpoint';
import { z } from 'zod';

/**
 * Reads a service's settings from the environment. Any NAME may instead be given as NAME_FILE, the path of a file with
 * the value (mounted secrets).
 *
 * @throws SettingsError listing all errors
 */
export function readEnv<S extends z.ZodObject>(schema: S, env: NodeJS.ProcessEnv): z.infer<S> {
  const values: Record<string, string> = {};
  for (const name of Object.keys(schema.shape)) {
    const value = env[name] ?? readValueFile(env[`${name}_FILE`]);
    if (value !== undefined && value !== '') values[name] = value;
  }
  const parsed = schema.safeParse(values);
  if (parsed.success) return parsed.data;
  throw new SettingsError(`Wrong environment:\n${z.prettifyError(parsed.error)}`);
}

function readValueFile(path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    throw new SettingsError(`Wrong environment:\nthe file ${path} can't be read`);
  }
}

/** Address that a server listens on, or the descriptor of a socket that the parent process opened. */
export type ListenAddress = { host: string; port: number } | { fd: number };

/** Schema of `host:port` or `fd:N`. */
export const listenAddress = z.string().transform((text, context): ListenAddress => {
  const fd = /^fd:(\d+)$/.exec(text)?.[1];
  if (fd !== undefined) return { fd: Number(fd) };
  const [, host, port] = /^(.+):(\d+)$/.exec(text) ?? [];
  if (host !== undefined && port !== undefined && Number(port) < 65_536) {
    return { host, port: Number(port) };
  }
  context.addIssue({ code: 'custom', message: 'write host:port, or fd:N for an open socket' });
  return z.NEVER;
});

/** Variables that every service reads. */
export const commonEnv = {
  /** Minimum level of logged messages. */
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace']).default('info'),
  /** Address of /livez, /readyz and /metrics; must not be public. */
  OPS_LISTEN: listenAddress.default({ host: '127.0.0.1', port: 9000 }),
  /** Host names accepted there besides localhost and IP addresses. */
  OPS_HOSTS: z
    .string()
    .default('')
    .transform((text) =>
      text
        .split(',')
        .map((name) => name.trim())
        .filter(Boolean),
    ),
  /** Base URL of the OTLP/HTTP receiver of traces, such as http://collector:4318. */
  OTEL_EXPORTER_OTLP_ENDPOINT: z
    .string()
    .regex(/^https?:\/\/[^/]/, 'write http://host:port')
    .optional(),
  /** Share of the pushes that are traced; the decision of a caller's trace takes precedence. */
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).default(1),
  /** For tests: steps at which the process ends, stops, fails or blocks. With NODE_ENV=production a process does not start with it. */
  FAILPOINTS: z.string().optional(),
};

/** Variables of MongoDB. */
export const mongodbEnv = {
  /** URI of MongoDB with the database name: mongodb://db:27017/carillon. */
  MONGODB_URI: z.string().regex(/^mongodb(\+srv)?:\/\//, 'write mongodb://host:port/database'),
};

/** Schema of the address of a Redis; the error does not hold the address, which may have a password. */
export const redisUrl = z.string().superRefine((url, context) => {
  try {
    parseRedisUrl(url);
  } catch (error) {
    context.addIssue({ code: 'custom', message: (error as Error).message });
  }
});

/** Variables of the Redis for queues and, by default, for presence. */
export const redisEnv = {
  /** URL of a Redis or Valkey with maxmemory-policy noeviction ([forms](scaling.md#which-redis)). */
  REDIS_URL: redisUrl,
  /** Certificate of the private authority of all rediss:// servers, PEM. */
  REDIS_CA: z.string().refine(isCertificate, 'write a certificate in PEM format').optional(),
};

function isCertificate(text: string): boolean {
  try {
    new X509Certificate(text);
    return true;
  } catch {
    return false;
  }
}

/** Variables of the Redis for presence, dispatch to gateways and rate limits. */
export const presenceEnv = {
  /** URL of the Redis for presence, dispatch and rate limits; REDIS_URL if unset. The same in all processes. */
  PRESENCE_REDIS_URL: redisUrl.optional(),
};

/** Schema of a contact that push services accept. */
export const webPushContact = z.string().superRefine((contact, context) => {
  const message = findContactFault(contact);
  if (message !== undefined) context.addIssue({ code: 'custom', message });
});

/** Variables of the processes that sign requests to push services, or that warn when their contact is missing. */
export const webPushContactEnv = {
  /** Contact for push services, of apps without their own: a `mailto:` or `https:` URL of your domain. Without one Apple refuses pushes to Safari. */
  WEB_PUSH_CONTACT: webPushContact.optional(),
};

/** Variables of the processes that check the endpoints of browsers. */
export const webPushHostsEnv = {
  /** Web Push services besides the browsers' own: hosts, with port unless 443; `*`: any public address. */
  WEB_PUSH_HOSTS: z.string().default('').transform(toPushHosts),
};

function toPushHosts(text: string, context: z.RefinementCtx): AllowedPushHosts {
  try {
    return parsePushHosts(text.split(',').filter(Boolean));
  } catch (error) {
    context.addIssue({ code: 'custom', message: (error as Error).message });
    return z.NEVER;
  }
}

/** Variables of services that stand behind a load balancer. */
export const stopDelayEnv = {
  /** Seconds for which a process still serves after SIGTERM, with 503 on /readyz, until load balancers remove it. */
  STOP_DELAY_SECONDS: z.coerce.number().min(0).max(300).default(0),
};

/** Settings of the Redis servers. */
interface RedisSettings {
  REDIS_URL: string;
  PRESENCE_REDIS_URL?: string | undefined;
  REDIS_CA?: string | undefined;
}

/** Returns the address of the Redis for queues. */
export function queueRedis({ REDIS_URL, REDIS_CA }: RedisSettings) {
  return { url: REDIS_URL, ca: REDIS_CA };
}

/** Returns the address of the Redis for presence. */
export function presenceRedis({ REDIS_URL, PRESENCE_REDIS_URL, REDIS_CA }: RedisSettings) {
  return { url: PRESENCE_REDIS_URL ?? REDIS_URL, ca: REDIS_CA };
}
