import { z } from 'zod';

const port = z.int().min(1).max(65_535);
const binary = z.object({ path: z.string(), version: z.string() });

/** Configuration that the bootstrap passes to the supervisor: settings, servers found, open sockets. */
const bootstrapConfigSchema = z.object({
  /** Root folder of the checkout. */
  root: z.string(),
  /** Version of Carillon. */
  version: z.string(),
  /** Folder of the stack's data, secrets and logs. */
  home: z.string(),
  /** Address of the public ports. */
  host: z.string(),
  /** Loopback address of Redis, MongoDB, the sandbox and the ops ports. */
  privateHost: z.string(),
  ports: z.object({
    api: port,
    mqtt: port,
    mqtts: port,
    ws: port,
    redis: port,
    mongodb: port,
    sandbox: port,
    sandboxApns: port,
    sandboxFcm: port,
    sandboxWebPush: port,
    console: port,
  }),
  services: z.array(z.object({ service: z.string(), count: z.int().min(0), firstOpsPort: port })),
  /** File descriptors of the listening sockets that the services share. */
  sockets: z.object({
    api: z.int(),
    mqtt: z.int(),
    mqtts: z.int(),
    ws: z.int(),
    console: z.int(),
  }),
  /** Starts a simulated device. */
  demo: z.boolean(),
  /** True if a changed source file restarts the services that run it. */
  reload: z.boolean(),
  /** The service whose first process opens the inspector of Node, and its port. */
  inspect: z.object({ service: z.string(), port }).optional(),
  addressLimits: z.enum(['on', 'off']),
  retentionSeconds: z.int(),
  /** URL of an existing Redis. The stack then starts none. */
  redisUrl: z.string().optional(),
  /** URI of an existing MongoDB. The stack then starts none. */
  mongodbUri: z.string().optional(),
  redis: binary.optional(),
  mongod: binary.optional(),
  /** Time at which the user's command started, Unix milliseconds. */
  startedAt: z.number(),
});

export type BootstrapConfig = z.infer<typeof bootstrapConfigSchema>;

/** Parses the configuration. @throws when it is invalid, which is a bug of the bootstrap */
export function parseBootstrapConfig(text: string | undefined): BootstrapConfig {
  return bootstrapConfigSchema.parse(JSON.parse(text ?? 'null'));
}

/** Formats `scheme://host:port`. An IPv6 address gets brackets, a wildcard address becomes loopback. */
export function formatUrl(scheme: string, host: string, portNumber: number): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `${scheme}://${reachable.includes(':') ? `[${reachable}]` : reachable}:${portNumber}`;
}
