import { readFileSync } from 'node:fs';

/** One process of a stack, as the supervisor describes it. */
export interface StackProcess {
  service: string;
  index: number;
  pid: number;
  /** Base URL of /livez, /readyz and /metrics; Redis and MongoDB have none. */
  ops?: string;
}

/** Description of a running stack; addresses of parts that do not exist are absent. */
export interface Dev {
  ready: boolean;
  version: string;
  api: string;
  app: string;
  apiKey: string;
  mqtt: string;
  mqtts?: string;
  ws?: string;
  ca?: string;
  console?: string;
  setup?: string;
  sandbox?: string;
  mongodb: string;
  redis: string;
  processes: StackProcess[];
}

/** Reads the dev.json of a stack's home folder; undefined while there is none. */
export function readDev(home: string): Dev | undefined {
  try {
    return JSON.parse(readFileSync(`${home}/dev.json`, 'utf8')) as Dev;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * The process of that service.
 *
 * @throws when the stack names none.
 */
export function findProcess(dev: Dev | undefined, service: string, index: number): StackProcess {
  const found = dev?.processes.find((one) => one.service === service && one.index === index);
  if (found === undefined) throw new Error(`the stack has no process ${service}-${index}`);
  return found;
}
