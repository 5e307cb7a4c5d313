import { once } from 'node:events';
import { constants } from 'node:fs';
import { access, readFile, statfs } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import {
  ANSWER_LIMIT_MS,
  type Answer,
  awaitAnswer,
  requireConnection,
  type ServerAddress,
} from '@carillon/admin/await-answer';
import {
  checkDatabase,
  checkHealth,
  checkPresenceRedis,
  checkRedis,
  describeDiskSpace,
  type Finding,
  runCheck,
} from '@carillon/admin/doctor';
import { http } from '@carillon/runtime/node-http';
import { connect } from 'mqtt';
import { parseApiError } from './api-client.ts';
import { type CommandStore, hostOf, withStore } from './database.ts';
import { requireSetting, type Stack } from './stack.ts';

const MIN_NODE_MAJOR = 24;
/** Timeout of the MQTT client, beyond the limit of an answer. */
const MQTT_TIMEOUT_MS = 60_000;
const MONGODB_PORT = 27_017;
/** Ports of addresses without one. */
const PORTS: Readonly<Record<string, number>> = {
  ...{ 'http:': 80, 'https:': 443, 'ws:': 80, 'wss:': 443, 'mqtt:': 1_883, 'mqtts:': 8_883 },
};
/** CONNACK return code 1 (MQTT 3.1.1, section 3.2.2.3). */
const UNACCEPTABLE_PROTOCOL = 1;
/** Path of a device that does not exist: the error shows that the API runs, and whether the key is valid. */
const PROBE_PATH = '/devices/doctor';

/** Checks all parts of a stack. What delays deliveries comes first. */
export async function checkStack(stack: Stack, nodeVersion: string): Promise<Finding[]> {
  const findings = await Promise.all([
    checkMongodb(stack),
    checkNode(nodeVersion),
    checkRedisOf(stack),
    checkApi(stack),
    checkMqtt(stack),
    checkConsole(stack),
    checkDataFolder(stack),
    checkProcesses(stack),
  ]);
  return findings.flat();
}

/** Checks the Node that runs this command, which also runs the services. */
function checkNode(version: string): Promise<Finding> {
  return runCheck('node', () => {
    if (Number.parseInt(version, 10) >= MIN_NODE_MAJOR) return version;
    throw new Error(`${version}; it must be ${MIN_NODE_MAJOR} or newer`);
  });
}

/** Checks what delays deliveries, and MongoDB, which tells a part of it. */
async function checkMongodb(stack: Stack): Promise<Finding[]> {
  const { redis: url, redisCa: ca, webPushContact } = stack;
  const redis = url === undefined ? undefined : { url, ca };
  try {
    const uri = requireSetting(stack, 'mongodb');
    const host = hostOf(uri);
    await requireConnection(`MongoDB at ${host}`, listMongodbHosts(uri));
    // The driver's limits are those of each answer.
    const limits = {
      ...{ timeoutMs: ANSWER_LIMIT_MS, connectMs: ANSWER_LIMIT_MS },
      isReachable: listMongodbHosts(uri).length > 0,
    };
    const check = (store: CommandStore) =>
      Promise.all([checkHealth(redis, store), checkDatabase(store, host, webPushContact)]);
    return (await withStore(stack, check, limits)).flat();
  } catch (error) {
    const health = await checkHealth(redis, undefined);
    return [...health, await runCheck('mongodb', () => Promise.reject(error))];
  }
}

/** Lists the hosts of a connection string; none for `mongodb+srv`, whose hosts the name server has. */
function listMongodbHosts(uri: string): ServerAddress[] {
  // The encoded path of a socket is no host either.
  if (uri.startsWith('mongodb+srv:') || hostOf(uri).includes('%')) return [];
  return hostOf(uri)
    .split(',')
    .map((text) => {
      const { hostname, port } = new URL(`tcp://${text}`);
      return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || MONGODB_PORT };
    });
}

async function checkRedisOf(stack: Stack): Promise<Finding[]> {
  const { redis, presenceRedis, redisCa: ca } = stack;
  if (redis === undefined) return [await runCheck('redis', () => requireSetting(stack, 'redis'))];
  const findings = await Promise.all([
    checkRedis({ url: redis, ca }),
    presenceRedis === undefined ? [] : checkPresenceRedis({ url: presenceRedis, ca }),
  ]);
  return findings.flat();
}

/** Checks that the HTTP API responds, and that it accepts the key. */
async function checkApi(stack: Stack): Promise<Finding[]> {
  const key = stack.apiKey;
  const apiResponse = (async () => {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const { answer, slow } = await request(requireSetting(stack, 'api'), PROBE_PATH, headers);
    return { status: answer.status, error: parseApiError(answer.text), slow };
  })();
  const apiFinding = await runCheck('api', async () => {
    const { status, error, slow } = await apiResponse;
    if (error === undefined) throw new Error(`the server at ${stack.api} is not Carillon`);
    if (status >= 500) throw new Error(`HTTP ${status} at ${stack.api}: ${error.error}`);
    return `${slow}responds at ${stack.api}`;
  });
  if (!apiFinding.ok || key === undefined) return [apiFinding];
  const keyFinding = await runCheck('api key', async () => {
    const { error } = await apiResponse;
    if (error?.code === 'INVALID_DEVICE_TOKEN') return 'valid';
    throw new Error(error?.error);
  });
  return [apiFinding, keyFinding];
}

type Page = Answer<{ ok: boolean; status: number; text: string }>;

/** Requests a page of a server. @throws Error that says whether the server accepts connections */
function request(base: string, path: string, headers: Record<string, string> = {}): Promise<Page> {
  return awaitAnswer(base, [addressOf(base)], async ({ signal }) => {
    const response = await fetch(`${base.replace(/\/$/, '')}${path}`, { headers, signal });
    return { ok: response.ok, status: response.status, text: await response.text() };
  });
}

/** Requests a page as a proxy does: at another address than the one in the request, which `fetch` can't. */
function requestThrough(internal: string, base: string, path: string): Promise<Page> {
  return awaitAnswer(internal, [addressOf(internal)], async ({ signal }) => {
    const headers = { host: new URL(base).host };
    const sent = http.get(new URL(path, internal), { headers, signal, agent: false });
    const [response] = (await once(sent, 'response', { signal })) as [IncomingMessage];
    const status = response.statusCode ?? 0;
    return { ok: status === 200, status, text: await text(response) };
  });
}

function addressOf(url: string): ServerAddress {
  const { hostname, port, protocol } = new URL(url);
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || (PORTS[protocol] ?? 0) };
}

/**
 * Checks the MQTT gateway with a protocol version that it rejects. Invalid credentials would get a response as well,
 * but count as a failed login.
 */
function checkMqtt(stack: Stack): Promise<Finding> {
  return runCheck('mqtt', async () => {
    const url = requireSetting(stack, 'mqtt');
    const { slow } = await awaitAnswer(hostOf(url), [addressOf(url)], ({ signal }) =>
      probeMqtt(url, signal),
    );
    return `${slow}responds at ${hostOf(url)}`;
  });
}

/**
 * Checks the console, whose address a stack may not know. It listens once MongoDB has a schema that it can use, and
 * reads MongoDB for the first response.
 */
async function checkConsole({ console: base, consoleInternal }: Stack): Promise<Finding[]> {
  if (base === undefined) return [];
  const get = (path: string) =>
    consoleInternal === undefined
      ? request(base, path)
      : requestThrough(consoleInternal, base, path);
  const server = await runCheck('console', async () => {
    const { answer, slow } = await get('/api/login');
    const body = parseJson(answer.text);
    if (!isObject(body) || !('setupNeeded' in body || 'code' in body))
      throw new Error(`the server at ${base} is not the console`);
    if (!answer.ok) throw new Error(`HTTP ${answer.status} at ${base}: ${body.error}`);
    return `${slow}ready at ${base}`;
  });
  if (!server.ok) return [server];
  const pages = await runCheck('console pages', async () => {
    const { answer, slow } = await get('/');
    if (answer.ok) return `${slow}built`;
    throw new Error(
      `HTTP ${answer.status} at ${base}; build them: npm run build in services/dashboard/web`,
    );
  });
  return [server, pages];
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

async function probeMqtt(url: string, signal: AbortSignal): Promise<void> {
  const client = connect(url, {
    clientId: 'doctor',
    protocolVersion: 5,
    reconnectPeriod: 0,
    connectTimeout: MQTT_TIMEOUT_MS,
  });
  signal.addEventListener('abort', () => client.end(true));
  try {
    await new Promise<void>((resolve, reject) => {
      client.once('connect', () => resolve());
      client.once('close', () =>
        reject(new Error(`${hostOf(url)} closes the connection without a response`)),
      );
      client.on('error', (error) => {
        if ('code' in error && error.code === UNACCEPTABLE_PROTOCOL) resolve();
        else reject(error);
      });
    });
  } finally {
    client.end(true);
  }
}

/** Checks the data folder of a stack that `npm start` runs; a deployment has none. */
async function checkDataFolder({ home, processes }: Stack): Promise<Finding[]> {
  if (processes.length === 0) return [];
  const folder = await runCheck('data folder', async () => {
    await access(home, constants.R_OK | constants.W_OK | constants.X_OK);
    return `${home} is writable`;
  });
  const space = await runCheck('data folder disk space', async () => {
    const { bavail, blocks, bsize } = await statfs(home);
    return describeDiskSpace({ free: bavail * bsize, total: blocks * bsize });
  });
  return [folder, space];
}

/** Checks the processes that `npm start` runs: services by their readiness, Redis and MongoDB by their process. */
function checkProcesses({ processes }: Stack): Promise<Finding[]> {
  return Promise.all(
    processes.map(({ service, index, pid, ops }) =>
      runCheck(`process ${service}-${index}`, async () => {
        const state = ops === undefined ? await readProgram(pid) : await fetchReadiness(ops);
        return `${state} (pid ${pid})`;
      }),
    ),
  );
}

/** Reads the program of a process from /proc, which only Linux has. */
async function readProgram(pid: number): Promise<string> {
  const commandLine = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => 'runs');
  // Redis appends its address to its name.
  return commandLine.replace(/\0.*/s, '').replace(/ \S+:\d+$/, '');
}

async function fetchReadiness(ops: string): Promise<string> {
  const { answer, slow } = await request(ops, '/readyz');
  if (answer.ok) return `${slow}ready`;
  throw new Error(`not ready: ${hostOf(ops)} returns HTTP ${answer.status}`);
}
