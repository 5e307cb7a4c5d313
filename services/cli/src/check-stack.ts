import { constants } from 'node:fs';
import { access, readFile, statfs } from 'node:fs/promises';
import {
  checkDatabase,
  checkHealth,
  checkPresenceRedis,
  checkRedis,
  describeDiskSpace,
  type Finding,
  runCheck,
} from '@carillon/admin/doctor';
import { connect } from 'mqtt';
import { callApi, parseApiError } from './api-client.ts';
import { hostOf, withStore } from './database.ts';
import { requireSetting, type Stack } from './stack.ts';

const MIN_NODE_MAJOR = 24;
const READY_TIMEOUT_MS = 2_000;
const MQTT_TIMEOUT_MS = 5_000;
/** Timeout of a request to the console, which waits up to 5 s for MongoDB. */
const CONSOLE_TIMEOUT_MS = 8_000;
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
    const host = hostOf(requireSetting(stack, 'mongodb'));
    const findings = await withStore(stack, (store) =>
      Promise.all([checkHealth(redis, store), checkDatabase(store, host, webPushContact)]),
    );
    return findings.flat();
  } catch (error) {
    const health = await checkHealth(redis, undefined);
    return [...health, await runCheck('mongodb', () => Promise.reject(error))];
  }
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
    const request = { method: 'GET', path: PROBE_PATH, ...(key && { key }) } as const;
    const { status, text } = await callApi(requireSetting(stack, 'api'), request);
    return { status, error: parseApiError(text) };
  })();
  const apiFinding = await runCheck('api', async () => {
    const { status, error } = await apiResponse;
    if (error === undefined) throw new Error(`the server at ${stack.api} is not Carillon`);
    if (status >= 500) throw new Error(`HTTP ${status} at ${stack.api}: ${error.error}`);
    return `responds at ${stack.api}`;
  });
  if (!apiFinding.ok || key === undefined) return [apiFinding];
  const keyFinding = await runCheck('api key', async () => {
    const { error } = await apiResponse;
    if (error?.code === 'INVALID_DEVICE_TOKEN') return 'valid';
    throw new Error(error?.error);
  });
  return [apiFinding, keyFinding];
}

/**
 * Checks the MQTT gateway with a protocol version that it rejects. Invalid credentials would get a response as well,
 * but count as a failed login.
 */
function checkMqtt(stack: Stack): Promise<Finding> {
  return runCheck('mqtt', async () => {
    const url = requireSetting(stack, 'mqtt');
    await probeMqtt(url);
    return `responds at ${hostOf(url)}`;
  });
}

/**
 * Checks the console, whose address a stack may not know. It listens once MongoDB has a schema that it can use, and
 * reads MongoDB for the first response.
 */
async function checkConsole({ console: base }: Stack): Promise<Finding[]> {
  if (base === undefined) return [];
  const server = await runCheck('console', async () => {
    const response = await fetchConsole(base, 'api/login');
    const body: unknown = await response.json().catch(() => undefined);
    if (!isObject(body) || !('setupNeeded' in body || 'code' in body))
      throw new Error(`the server at ${base} is not the console`);
    if (!response.ok) throw new Error(`HTTP ${response.status} at ${base}: ${body.error}`);
    return `ready at ${base}`;
  });
  if (!server.ok) return [server];
  const pages = await runCheck('console pages', async () => {
    const { ok, status } = await fetchConsole(base, '');
    if (ok) return 'built';
    throw new Error(
      `HTTP ${status} at ${base}; build them: npm run build in services/dashboard/web`,
    );
  });
  return [server, pages];
}

function fetchConsole(base: string, path: string): Promise<Response> {
  return fetch(`${base.replace(/\/$/, '')}/${path}`, {
    signal: AbortSignal.timeout(CONSOLE_TIMEOUT_MS),
  });
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

async function probeMqtt(url: string): Promise<void> {
  const client = connect(url, {
    clientId: 'doctor',
    protocolVersion: 5,
    reconnectPeriod: 0,
    connectTimeout: MQTT_TIMEOUT_MS,
  });
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
  const response = await fetch(`${ops}/readyz`, { signal: AbortSignal.timeout(READY_TIMEOUT_MS) });
  if (response.ok) return 'ready';
  throw new Error(`not ready: ${hostOf(ops)} returns HTTP ${response.status}`);
}
