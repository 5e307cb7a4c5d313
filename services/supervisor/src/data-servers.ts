import type { ChildPlan } from './child-plan.ts';
import { type Handover, urlAt } from './handover.ts';
import type { Home } from './home.ts';
import { acceptsConnections, answersPing, speaksRedis } from './probes.ts';
import { Refusal } from './refusal.ts';

const DATABASE = 'carillon';
const CACHE_GB = '0.5';
const REDIS_PORT = 6379;

/** Where Redis and MongoDB are, and which of the two this stack runs itself. */
export interface DataServers {
  redisUrl: string;
  mongodbUri: string;
  plans: ChildPlan[];
}

/** Decides from the handover; starts nothing. */
export function planDataServers(handover: Handover, home: Home): DataServers {
  const { privateHost: host, ports } = handover;
  const common = {
    index: 0,
    env: pick(process.env, ['PATH', 'HOME', 'TZ', 'LANG']),
    leashed: false,
    sockets: [],
    patience: 1,
  };
  const plans: ChildPlan[] = [];
  if (handover.redis !== undefined) {
    plans.push({
      ...common,
      service: 'redis',
      command: handover.redis.path,
      args: redisArgs(host, ports.redis, home.at('redis')),
      cwd: home.at('redis'),
      log: home.log('redis-0'),
      wayOut: wayOut(home.at('redis'), 'REDIS_URL'),
      isReady: () => answersPing(host, ports.redis),
    });
  }
  if (handover.mongod !== undefined) {
    plans.push({
      ...common,
      service: 'mongodb',
      command: handover.mongod.path,
      args: mongodArgs(host, ports.mongodb, home.at('mongodb')),
      cwd: home.at('mongodb'),
      log: home.log('mongodb-0'),
      wayOut: wayOut(home.at('mongodb'), 'MONGODB_URI'),
      isReady: () => acceptsConnections(host, ports.mongodb),
    });
  }
  return {
    plans,
    redisUrl: handover.redisUrl ?? urlAt('redis', host, ports.redis),
    mongodbUri: handover.mongodbUri ?? `${urlAt('mongodb', host, ports.mongodb)}/${DATABASE}`,
  };
}

function wayOut(folder: string, variable: string): string {
  return `If its data in ${folder} are beyond repair, move that folder away to begin anew; or name another server with ${variable}.`;
}

function redisArgs(host: string, port: number, dir: string): string[] {
  const options = {
    bind: host,
    port: String(port),
    dir,
    appendonly: 'yes',
    appendfsync: 'everysec',
    save: '',
    'maxmemory-policy': 'noeviction',
    daemonize: 'no',
  };
  return Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
}

function mongodArgs(host: string, port: number, dbpath: string): string[] {
  const address = ['--port', String(port), '--bind_ip', host, '--nounixsocket'];
  const ipv6 = host.includes(':') ? ['--ipv6'] : [];
  // Its vendor's recorder works every second and keeps 200 MB, for nobody here.
  const recorder = ['--setParameter', 'diagnosticDataCollectionEnabled=false'];
  const cache = ['--wiredTigerCacheSizeGB', CACHE_GB];
  return ['--dbpath', dbpath, ...address, ...ipv6, ...cache, ...recorder, '--quiet'];
}

/**
 * Looks whether the Redis that the user named is there. (MongoDB is asked by the migration.)
 * @throws {Refusal} when no Redis answers there; of one behind TLS only that something listens is known
 */
export async function checkGivenRedis(handover: Handover): Promise<void> {
  if (handover.redisUrl === undefined) return;
  const { protocol, hostname, port } = new URL(handover.redisUrl);
  const host = hostname.replace(/^\[|\]$/g, '');
  const isThere = protocol === 'rediss:' ? acceptsConnections : speaksRedis;
  if (await isThere(host, Number(port) || REDIS_PORT)) return;
  throw new Refusal(
    `REDIS_URL names a Redis at ${hostname}:${port || REDIS_PORT}, and no Redis answers there. Start it, or leave REDIS_URL out.`,
  );
}

/** Some of the variables of an environment. */
export function pick(env: NodeJS.ProcessEnv, names: readonly string[]): NodeJS.ProcessEnv {
  return Object.fromEntries(names.flatMap((name) => (name in env ? [[name, env[name]]] : [])));
}
