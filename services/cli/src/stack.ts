import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { readEnv } from '@carillon/runtime/env';
import { z } from 'zod';
import { isAbsent, reasonOf, refused, unreachable } from './failure.ts';

const ROOT = resolve(import.meta.dirname, '../../..');

/** The environment: what isn't set is looked up in the folder of a stack that `npm start` runs. */
const envSchema = z.object({
  /** The folder of the stack. */
  CARILLON_HOME: z.string().default(join(ROOT, '.carillon')),
  MONGODB_URI: z
    .string()
    .regex(/^mongodb(\+srv)?:\/\//, 'write mongodb://host:port/database')
    .optional(),
  REDIS_URL: z
    .string()
    .regex(/^rediss?:\/\//, 'write redis://host:port')
    .optional(),
  /** HMAC key of the digests under which API keys are stored. */
  API_KEY_PEPPER: z.string().min(32).optional(),
  /** Keys under which providers' secrets are sealed, newest first: `2:<hex>,1:<hex>`. */
  CREDENTIAL_KEYS: z.string().optional(),
  /** Base address of the HTTP API. */
  CARILLON_API: z.url({ protocol: /^https?$/ }).optional(),
  /** The Secret API Key for the commands that ask the HTTP API. */
  CARILLON_API_KEY: z.string().optional(),
  /** Where devices connect: mqtt://, mqtts://, ws:// or wss://. */
  CARILLON_MQTT: z.url({ protocol: /^(mqtts?|wss?)$/ }).optional(),
  /** The control API of the sandbox, which plays the providers. */
  CARILLON_SANDBOX: z.url({ protocol: /^https?$/ }).optional(),
});

const devSchema = z.object({
  api: z.string(),
  apiKey: z.string(),
  mqtt: z.string(),
  sandbox: z.string().optional(),
  mongodb: z.string(),
  redis: z.string(),
  processes: z.array(
    z.object({
      service: z.string(),
      index: z.int(),
      pid: z.int(),
      ops: z.string().optional(),
    }),
  ),
});
const secretsSchema = z.object({ apiKeyPepper: z.string(), credentialKeys: z.string().optional() });

/** Where the parts of a stack are; undefined: not known. */
export interface Stack {
  home: string;
  mongodb: string | undefined;
  redis: string | undefined;
  pepper: string | undefined;
  sealingKeys: string | undefined;
  api: string | undefined;
  apiKey: string | undefined;
  mqtt: string | undefined;
  sandbox: string | undefined;
  /** What `npm start` runs, while it does. */
  processes: z.infer<typeof devSchema>['processes'];
}

/**
 * Finds the stack: the environment first, then the folder of a running one.
 *
 * @throws EnvError when a variable is wrong, Failure when a file of the folder is
 */
export function findStack(variables: NodeJS.ProcessEnv): Stack {
  const env = readEnv(envSchema, variables);
  const home = resolve(env.CARILLON_HOME);
  const dev = readJson(join(home, 'dev.json'), devSchema);
  const secrets = readJson(join(home, 'secrets.json'), secretsSchema);
  // Secrets of the folder are for its own servers only: another's keys would get a wrong digest, and
  // another's API would be told our key.
  const isOwnDatabase = env.MONGODB_URI === undefined || env.MONGODB_URI === dev?.mongodb;
  const isOwnApi = env.CARILLON_API === undefined || env.CARILLON_API === dev?.api;
  return {
    home,
    mongodb: env.MONGODB_URI ?? dev?.mongodb,
    redis: env.REDIS_URL ?? dev?.redis,
    sealingKeys: env.CREDENTIAL_KEYS ?? (isOwnDatabase ? secrets?.credentialKeys : undefined),
    pepper: env.API_KEY_PEPPER ?? (isOwnDatabase ? secrets?.apiKeyPepper : undefined),
    api: env.CARILLON_API ?? dev?.api,
    apiKey: env.CARILLON_API_KEY ?? (isOwnApi ? dev?.apiKey : undefined),
    mqtt: env.CARILLON_MQTT ?? dev?.mqtt,
    sandbox: env.CARILLON_SANDBOX ?? dev?.sandbox,
    processes: dev?.processes ?? [],
  };
}

const VARIABLES = {
  mongodb: 'MONGODB_URI',
  redis: 'REDIS_URL',
  pepper: 'API_KEY_PEPPER',
  sealingKeys: 'CREDENTIAL_KEYS',
  api: 'CARILLON_API',
  apiKey: 'CARILLON_API_KEY',
  mqtt: 'CARILLON_MQTT',
  sandbox: 'CARILLON_SANDBOX',
} as const;

/**
 * One fact about the stack that a command can't do without.
 *
 * @throws Failure (unreachable) that says how to have it
 */
export function need(stack: Stack, part: keyof typeof VARIABLES): string {
  const value = stack[part];
  if (value !== undefined) return value;
  throw unreachable(
    `No stack runs on ${stack.home}, and ${VARIABLES[part]} is not set. Start one with npm start, or name a running one with CARILLON_HOME or ${VARIABLES[part]}.`,
  );
}

/** Whether nothing at all is known of a stack. */
export function isNowhere(stack: Stack): boolean {
  return [stack.mongodb, stack.redis, stack.api, stack.mqtt].every((part) => part === undefined);
}

function readJson<S extends z.ZodType>(path: string, schema: S): z.infer<S> | undefined {
  try {
    return schema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch (error) {
    if (isAbsent(error)) return undefined;
    const why =
      error instanceof z.ZodError ? 'it lacks what a stack writes there' : reasonOf(error);
    throw refused(`${path} can't be used: ${why}.`);
  }
}
