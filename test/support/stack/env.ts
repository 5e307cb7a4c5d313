import { freePortBase } from './port-block.ts';

/** How many of each process, and the other options of a stack. */
export interface StackOptions {
  apis?: number;
  deliveryWorkers?: number;
  schedulers?: number;
  deviceGateways?: number;
  /** Consoles; none if absent. */
  dashboards?: number;
  /** Starts the sandbox, for tests that send through providers; true if absent. */
  sandbox?: boolean;
  /** Starts the simulated device too. */
  demo?: boolean;
  /** Address to listen on; 127.0.0.1 if absent. */
  host?: string;
  /** The stack runs its MongoDB itself, for every `--topology`. */
  ownMongodb?: boolean;
  /** More variables, which win over all others. */
  env?: Record<string, string>;
}

/** The caller's variables that reach a stack; a REDIS_URL, for example, must not. */
const INHERITED_VARIABLES =
  /^(PATH|HOME|TMPDIR|TZ|LANG|XDG_CACHE_HOME|CARILLON_REDIS_SERVER|CARILLON_MONGOD)$/;

/** The environment of `npm start` for a stack of its own in `home`. */
export async function stackEnv(home: string, options: StackOptions): Promise<NodeJS.ProcessEnv> {
  const { host = '127.0.0.1', demo = false, env = {} } = options;
  const inherited = Object.entries(process.env).filter(([name]) => INHERITED_VARIABLES.test(name));
  return {
    ...Object.fromEntries(inherited),
    CARILLON_HOME: home,
    CARILLON_HOST: host,
    CARILLON_PORT_BASE: String(await freePortBase(host)),
    CARILLON_DEMO: demo ? '1' : '0',
    CARILLON_SANDBOXES: options.sandbox === false ? '0' : '1',
    CARILLON_APIS: String(options.apis ?? 1),
    CARILLON_DELIVERY_WORKERS: String(options.deliveryWorkers ?? 1),
    CARILLON_SCHEDULERS: String(options.schedulers ?? 1),
    CARILLON_DEVICE_GATEWAYS: String(options.deviceGateways ?? 1),
    CARILLON_DASHBOARDS: String(options.dashboards ?? 0),
    ...env,
  };
}
