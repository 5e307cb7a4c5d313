import { BATCH_NUMBERS_PER_PAGE } from '@carillon/core/channels';
import { parseSealingKeys } from '@carillon/core/sealing';
import {
  commonEnv,
  mongodbEnv,
  presenceEnv,
  redisEnv,
  webPushContactEnv,
  webPushHostsEnv,
} from '@carillon/runtime/env';
import { type AllowedHosts, parseAllowedHosts } from '@carillon/webhooks/allowed-hosts';
import { z } from 'zod';
import { queueList, requireCredentialKeys } from './queues.ts';

function toAllowedHosts(text: string, context: z.RefinementCtx): AllowedHosts {
  try {
    return parseAllowedHosts(text);
  } catch (error) {
    context.addIssue({ code: 'custom', message: (error as Error).message });
    return z.NEVER;
  }
}

/** Settings of the process, read once by main.ts. */
export const environment = z
  .object({
    ...commonEnv,
    ...mongodbEnv,
    ...redisEnv,
    ...presenceEnv,
    ...webPushContactEnv,
    ...webPushHostsEnv,
    /** Jobs of each queue in progress at once. */
    CONCURRENCY: z.coerce.number().int().min(1).max(500).default(24),
    /** Most batches of one push that are released and not finished; divided by CONCURRENCY, the workers that one push can occupy. The same in all workers. */
    OPEN_BATCHES_PER_PUSH: z.coerce
      .number()
      .int()
      .min(BATCH_NUMBERS_PER_PAGE)
      .max(1_000)
      .default(64),
    /** Seconds for which a finished push can be queried. */
    RETENTION_SECONDS: z.coerce.number().int().min(1).default(172_800),
    /** Queues that the process serves. Each queue needs a worker. */
    QUEUES: queueList,
    /** Keys that seal providers' secrets, newest first: `2:<hex>,1:<hex>`. Workers need them for the queues of providers and `webhook`. */
    CREDENTIAL_KEYS: z.string().transform(parseSealingKeys).optional(),
    /** Certificate of the authority of the hosts in WEB_PUSH_HOSTS, PEM. */
    WEB_PUSH_CA: z.string().optional(),
    /** Receivers of webhooks that may have a private address or use http: names, addresses and networks such as 10.0.0.0/8. */
    WEBHOOK_HOSTS: z.string().default('').transform(toAllowedHosts),
    /** Certificates of further authorities of webhook receivers, PEM. */
    WEBHOOK_CA: z.string().optional(),
  })
  .superRefine(requireCredentialKeys);
