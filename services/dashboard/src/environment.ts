import { parseSealingKeys } from '@carillon/core/sealing';
import {
  commonEnv,
  listenAddress,
  mongodbEnv,
  presenceEnv,
  redisEnv,
  stopDelayEnv,
  webPushContactEnv,
} from '@carillon/runtime/env';
import { z } from 'zod';

const httpUrl = z.url({ protocol: /^https?$/ });

/** Settings of the process, read once by main.ts. */
export const environment = z.object({
  ...commonEnv,
  ...mongodbEnv,
  ...redisEnv,
  ...presenceEnv,
  ...stopDelayEnv,
  ...webPushContactEnv,
  /** Address of the console. */
  DASHBOARD_LISTEN: listenAddress.default({ host: '127.0.0.1', port: 4010 }),
  /** Address that operators open, such as https://console.example.com. Needed with a host name; https makes cookies Secure. */
  CONSOLE_URL: httpUrl.optional(),
  /** Name of the installation that the console shows, such as production. */
  CONSOLE_ENVIRONMENT: z.string().max(40).default(''),
  /** Address of the API for backends, in the commands that the console shows. */
  PUBLIC_API_URL: httpUrl.optional(),
  /** Number of own proxies in front: as many entries of X-Forwarded-For are trusted. */
  TRUST_PROXY: z.coerce.number().int().min(0).max(10).default(0),
  /** Pepper of the API keys' digests; a change makes all keys invalid. */
  API_KEY_PEPPER: z.string().min(32),
  /** Seconds for which a finished push can be queried. */
  RETENTION_SECONDS: z.coerce.number().int().min(1).default(172_800),
  /** Keys that seal providers' secrets, newest first: `2:<hex>,1:<hex>`. Workers need them for the queues of providers and `webhook`. */
  CREDENTIAL_KEYS: z.string().transform(parseSealingKeys),
  /** Issuer of an OpenID provider for single sign-on; needs CONSOLE_URL and OIDC_CLIENT_ID. */
  OIDC_ISSUER: httpUrl.optional(),
  /** Client id at the OpenID provider. */
  OIDC_CLIENT_ID: z.string().optional(),
  /** Client secret at the OpenID provider; none for a public client. */
  OIDC_CLIENT_SECRET: z.string().optional(),
  /** Scopes that the console requests there. */
  OIDC_SCOPES: z.string().default('openid profile email'),
  /** Claim with the role: viewer, operator, admin or owner, or a list with one of them. Without it a login is refused. */
  OIDC_ROLE_CLAIM: z.string().default('carillon_role'),
  /** Claim with the ids of the accounts that the operator may see; unset: all. */
  OIDC_ACCOUNTS_CLAIM: z.string().optional(),
  /** Text of the button for single sign-on. */
  OIDC_LABEL: z.string().max(60).default('Single sign-on'),
});

export type Environment = z.infer<typeof environment>;
