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
  /** Address of the API. */
  API_LISTEN: listenAddress.default({ host: '127.0.0.1', port: 4000 }),
  /** Pepper of the API keys' digests; a change makes all keys invalid. */
  API_KEY_PEPPER: z.string().min(32),
  /** Keys that sign device credentials, newest first: `2:<hex>,1:<hex>`. */
  DEVICE_AUTH_KEYS: z.string().transform(parseDeviceAuthKeys),
  /** Seconds for which a finished push can be queried. */
  RETENTION_SECONDS: z.coerce.number().int().min(1).default(172_800),
  /** `off`: no limits by client address, for load tests from one machine. */
  ADDRESS_LIMITS: z.enum(['on', 'off']).default('on'),
  /** Memory of a process for request bodies in reception; a push may have 8 MB. */
  BODY_MEMORY_MB: z.coerce.number().int().min(16).max(1_024).default(64),
  /** Seconds for which an idle connection stays open: longer than in the load balancer, or some requests fail. */
  KEEP_ALIVE_SECONDS: z.coerce.number().int().min(1).max(3_600).default(65),
  /** Number of own proxies in front: as many entries of X-Forwarded-For are trusted. */
  TRUST_PROXY: z.coerce.number().int().min(0).max(10).default(0),
});
