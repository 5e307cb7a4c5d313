import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describeError } from '@carillon/admin/admin-error';
import { readEnv, redisUrl, webPushContact } from '@carillon/runtime/env';
import { z } from 'zod';
import { commandFailed, isFileNotFound, serviceUnreachable, usageError } from './failure.ts';
import type { Output } from './output.ts';

const ROOT = resolve(import.meta.dirname, '../../..');

/** Environment variables; those that are absent default to the files of a stack that `npm start` runs. */
export const environmentSchema = z.object({
  /** Data folder of the stack. */
  CARILLON_HOME: z.string().default(join(ROOT, '.carillon')),
  /** URI of MongoDB with the database name. */
  MONGODB_URI: z
    .string()
    .regex(/^mongodb(\+srv)?:\/\//, 'write mongodb://host:port/database')
    .optional(),
  /** URL of the Redis for queues. */
  REDIS_URL: redisUrl.optional(),
  /** URL of the Redis for presence; REDIS_URL if absent. */
  PRESENCE_REDIS_URL: redisUrl.optional(),
  /** Certificate of the authority of a rediss:// server, PEM. */
  REDIS_CA: z.string().optional(),
  /** HMAC key of the digests of API keys. */
  API_KEY_PEPPER: z.string().min(32).optional(),
  /** Keys that seal providers' secrets, newest first: `2:<hex>,1:<hex>`. */
  CREDENTIAL_KEYS: z.string().optional(),
  /** As the services have it, for `doctor` and `credential list`. */
  WEB_PUSH_CONTACT: webPushContact.optional(),
  /** Address of the HTTP API. */
  CARILLON_API: z.url({ protocol: /^https?$/ }).optional(),
  /** Base address of the console, for the links of `operator` and for `doctor`. */
  CONSOLE_URL: z.url({ protocol: /^https?$/ }).optional(),
  /** Port of the console on 127.0.0.1, where CONSOLE_URL is absent. */
  CONSOLE_PORT: z.coerce.number().int().min(1).max(65_535).optional(),
  /** Base address at which `doctor` reaches the console inside a container network, where it can't reach that of CONSOLE_URL. */
  CONSOLE_INTERNAL_URL: z.url({ protocol: /^http$/ }).optional(),
  /** Address of the console whose admin API administrative commands use: https, or loopback. */
  CARILLON_CONSOLE: z.url({ protocol: /^https?$/ }).optional(),
  /** Operator token for CARILLON_CONSOLE. */
  CARILLON_TOKEN: z
    .string()
    .regex(/^[\w.~+/=-]+$/, 'write the token alone')
    .optional(),
  /** Key for the commands that call the HTTP API. */
  CARILLON_API_KEY: z.string().optional(),
  /** App of that key, for `carillon canary` without --app. */
  CARILLON_APP: z.string().optional(),
  /** Address of the MQTT gateway: mqtt://, mqtts://, ws:// or wss://. */
  CARILLON_MQTT: z.url({ protocol: /^(mqtts?|wss?)$/ }).optional(),
  /** Address of the sandbox's control API. */
  CARILLON_SANDBOX: z.url({ protocol: /^https?$/ }).optional(),
});

const devFileSchema = z.object({
  api: z.string(),
  apiKey: z.string(),
  mqtt: z.string(),
  console: z.string().optional(),
  sandbox: z.string().optional(),
  webPushContact: z.string().optional(),
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
const secretsFileSchema = z.object({
  apiKeyPepper: z.string(),
  credentialKeys: z.string().optional(),
});

/** Addresses and secrets of a stack; undefined when unknown. */
export interface Stack {
  home: string;
  mongodb: string | undefined;
  redis: string | undefined;
  /** Redis for presence, if it is not the same. */
  presenceRedis: string | undefined;
  redisCa: string | undefined;
  pepper: string | undefined;
  sealingKeys: string | undefined;
  api: string | undefined;
  apiKey: string | undefined;
  /** App of the API key, if the environment names it. */
  app: string | undefined;
  mqtt: string | undefined;
  sandbox: string | undefined;
  console: string | undefined;
  /** Address at which `doctor` reaches the console, if it is another one. */
  consoleInternal: string | undefined;
  /** Console that administrative commands work over, and the token for it. */
  adminConsole: string | undefined;
  adminToken: string | undefined;
  /** Contact for push services of apps without one of their own. */
  webPushContact: string | undefined;
  /** Processes that `npm start` runs; empty when it does not run. */
  processes: z.infer<typeof devFileSchema>['processes'];
}

/** Everything a command needs. */
export interface CommandContext {
  /** Finds the stack that the command is for. */
  stack: () => Stack;
  output: Output;
}

/**
 * Finds the stack: from the environment first, then, unless that names a console to work over, from the folder of a
 * running stack.
 *
 * @throws SettingsError when a variable is invalid, Failure when a file of the folder is
 */
export function findStack(variables: NodeJS.ProcessEnv): Stack {
  const env = readEnv(environmentSchema, variables);
  const home = resolve(env.CARILLON_HOME);
  // Beside a console, a command that it does not have would work on another stack.
  const hasFolder = env.CARILLON_CONSOLE === undefined;
  const devFile = hasFolder ? readJsonFile(join(home, 'dev.json'), devFileSchema) : undefined;
  const secrets = hasFolder
    ? readJsonFile(join(home, 'secrets.json'), secretsFileSchema)
    : undefined;
  // The folder's secrets are only for its own servers: keys for another database would get a wrong digest, and
  // another API would receive this stack's key.
  const isOwnDatabase = env.MONGODB_URI === undefined || env.MONGODB_URI === devFile?.mongodb;
  const isOwnApi = env.CARILLON_API === undefined || env.CARILLON_API === devFile?.api;
  const { CONSOLE_PORT: port } = env;
  const published = port === undefined ? undefined : `http://127.0.0.1:${port}`;
  return {
    home,
    mongodb: env.MONGODB_URI ?? devFile?.mongodb,
    redis: env.REDIS_URL ?? devFile?.redis,
    presenceRedis: env.PRESENCE_REDIS_URL,
    redisCa: env.REDIS_CA,
    sealingKeys: env.CREDENTIAL_KEYS ?? (isOwnDatabase ? secrets?.credentialKeys : undefined),
    pepper: env.API_KEY_PEPPER ?? (isOwnDatabase ? secrets?.apiKeyPepper : undefined),
    api: env.CARILLON_API ?? devFile?.api,
    apiKey: env.CARILLON_API_KEY ?? (isOwnApi ? devFile?.apiKey : undefined),
    app: env.CARILLON_APP,
    mqtt: env.CARILLON_MQTT ?? devFile?.mqtt,
    sandbox: env.CARILLON_SANDBOX ?? devFile?.sandbox,
    console: env.CONSOLE_URL ?? published ?? devFile?.console,
    consoleInternal: env.CONSOLE_INTERNAL_URL,
    adminConsole: env.CARILLON_CONSOLE,
    adminToken: env.CARILLON_TOKEN,
    webPushContact: env.WEB_PUSH_CONTACT ?? (isOwnDatabase ? devFile?.webPushContact : undefined),
    processes: devFile?.processes ?? [],
  };
}

const ENV_VARIABLES = {
  mongodb: 'MONGODB_URI',
  redis: 'REDIS_URL',
  pepper: 'API_KEY_PEPPER',
  sealingKeys: 'CREDENTIAL_KEYS',
  api: 'CARILLON_API',
  apiKey: 'CARILLON_API_KEY',
  mqtt: 'CARILLON_MQTT',
  sandbox: 'CARILLON_SANDBOX',
  console: 'CONSOLE_URL',
} as const;

/**
 * Returns a setting of the stack.
 *
 * @throws Failure that names the ways to provide the setting: of usage if the stack is known by its console alone,
 *   unreachable otherwise
 */
export function requireSetting(stack: Stack, setting: keyof typeof ENV_VARIABLES): string {
  const value = stack[setting];
  if (value !== undefined) return value;
  if (stack.adminConsole !== undefined) {
    throw usageError(
      `This command does not work over the console in CARILLON_CONSOLE: set ${ENV_VARIABLES[setting]} too.`,
    );
  }
  throw serviceUnreachable(
    `No stack runs in ${stack.home}, and ${ENV_VARIABLES[setting]} is not set. Start a stack with npm start, or set CARILLON_HOME or ${ENV_VARIABLES[setting]} to use a running one.`,
  );
}

/** Returns true when no address of the stack is known. */
export function hasNoEndpoints(stack: Stack): boolean {
  return [stack.mongodb, stack.redis, stack.api, stack.mqtt].every(
    (setting) => setting === undefined,
  );
}

function readJsonFile<S extends z.ZodType>(path: string, schema: S): z.infer<S> | undefined {
  try {
    return schema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch (error) {
    if (isFileNotFound(error)) return undefined;
    const reason =
      error instanceof z.ZodError ? 'its content is not what a stack writes' : describeError(error);
    throw commandFailed(`${path} can't be used: ${reason}.`);
  }
}
