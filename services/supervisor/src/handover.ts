import { z } from 'zod';

const port = z.int().min(1).max(65_535);
const binary = z.object({ path: z.string(), version: z.string() });

/** What the bootstrap has read from the environment, found on the machine and opened. */
const handoverShape = z.object({
  /** The checkout. */
  root: z.string(),
  /** Of the product. */
  version: z.string(),
  /** Data, secrets and logs of this stack. */
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
  }),
  services: z.array(z.object({ service: z.string(), count: z.int().min(0), firstOpsPort: port })),
  /** File descriptors of the listening sockets held for the services. */
  sockets: z.object({ api: z.int(), mqtt: z.int(), mqtts: z.int(), ws: z.int() }),
  /** Whether a simulated device runs. */
  demo: z.boolean(),
  addressLimits: z.enum(['on', 'off']),
  retentionSeconds: z.int(),
  /** Given: no Redis is started. */
  redisUrl: z.string().optional(),
  /** Given: no MongoDB is started. */
  mongodbUri: z.string().optional(),
  redis: binary.optional(),
  mongod: binary.optional(),
  /** When the user's command began, Unix milliseconds. */
  startedAt: z.number(),
});

export type Handover = z.infer<typeof handoverShape>;

/** Reads what the bootstrap handed over; a fault in it is a fault of the bootstrap. */
export function readHandover(text: string | undefined): Handover {
  return handoverShape.parse(JSON.parse(text ?? 'null'));
}

/** `http://host:port`, also for an IPv6 address and for "every address". */
export function urlAt(scheme: string, host: string, at: number): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `${scheme}://${reachable.includes(':') ? `[${reachable}]` : reachable}:${at}`;
}
