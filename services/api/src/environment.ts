import { parseDeviceAuthKeys } from '@carillon/core/device-auth';
import {
  commonEnv,
  listenAddress,
  mongodbEnv,
  presenceEnv,
  redisEnv,
  stopDelayEnv,
  webPushContactEnv,
  webPushHostsEnv,
} from '@carillon/runtime/env';
import { z } from 'zod';

/** Settings of the process, read once by main.ts. */
export const environment = z.object({
  ...commonEnv,
  ...mongodbEnv,
  ...redisEnv,
  ...presenceEnv,
  ...stopDelayEnv,
  ...webPushContactEnv,
  ...webPushHostsEnv,
  /** Address that the API listens on. */
  API_LISTEN: listenAddress.default({ host: '127.0.0.1', port: 4000 }),
  /** Pepper of the API keys' digests; changing it makes all keys invalid. */
  API_KEY_PEPPER: z.string().min(32),
  /** Keys that sign device credentials, newest first: `2:<hex>,1:<hex>`. */
  DEVICE_AUTH_KEYS: z.string().transform(parseDeviceAuthKeys),
  /** Seconds for which a finished push can be queried. */
  RETENTION_SECONDS: z.coerce.number().int().min(1).default(172_800),
  /** `off` disables the limits per client address, for load tests from one machine. */
  ADDRESS_LIMITS: z.enum(['on', 'off']).default('on'),
  /** Memory for request bodies in reception, per process. A push may have 8 MB. */
  BODY_MEMORY_MB: z.coerce.number().int().min(16).max(1_024).default(64),
  /** Seconds for which an idle connection stays open: longer than in the load balancer, which else sends requests on closed connections. */
  KEEP_ALIVE_SECONDS: z.coerce.number().int().min(1).max(3_600).default(65),
  /** Number of own proxies in front of the service; as many entries of X-Forwarded-For are trusted. */
  TRUST_PROXY: z.coerce.number().int().min(0).max(10).default(0),
});
