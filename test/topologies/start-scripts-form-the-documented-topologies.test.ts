import { chmod, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { MongoClient } from 'mongodb';
import { inspectRedis } from '../../packages/presence/src/inspect-redis.ts';
import { isAcceptingConnections } from '../../tools/supervisor/src/probes.ts';
import { startProcess, type TestProcess } from '../support/child-process.ts';
import { createDataFolder } from '../support/data-folder.ts';
import { until } from '../support/until.ts';

const COMPONENTS = fileURLToPath(new URL('../../k8s/components/', import.meta.url));
const SCRIPT = fileURLToPath(new URL('../../deploy/image/with-replica-set.mjs', import.meta.url));
const MONGODB_PORT = 27_017;
const FORMED = { timeoutMs: 120_000, everyMs: 500 };
const TEST_MS = 240_000;

let folder: string;
/** Addresses of this machine that simulate pods and containers; each run has its own. */
let network: string;
const processes = new Map<string, TestProcess>();

beforeEach(async () => {
  folder = await createDataFolder();
  network = `127.${1 + (process.pid % 250)}.${Math.floor(Math.random() * 250)}`;
  const bin = join(folder, 'bin');
  await mkdir(bin);
  // The images have Valkey; here the server may be Redis.
  const server = process.env.CARILLON_REDIS_SERVER ?? '/usr/bin/redis-server';
  await symlink(server, join(bin, 'valkey-server'));
  await symlink(server.replace(/server$/, 'cli'), join(bin, 'valkey-cli'));
  await chmod(folder, 0o755);
});
afterEach(async () => {
  for (const process of processes.values()) process.kill('SIGKILL');
  await Promise.all([...processes.values()].map((process) => process.exited));
  processes.clear();
  await rm(folder, { recursive: true, force: true });
});

const addressOf = (pod: number) => `${network}.${pod}`;

/** Runs a start script as the first or a later start of a pod. */
async function start(script: string, pod: number, env: Record<string, string>): Promise<void> {
  const data = join(folder, `${pod}`);
  await mkdir(data, { recursive: true });
  const node = addressOf(pod);
  const own = { NODE: node, ADDRESS: node, BIND: node, DATA: data, NAME: 'carillon' };
  const path = `${join(folder, 'bin')}:${process.env.PATH}`;
  const child = startProcess('sh', [join(COMPONENTS, script)], {
    env: { PATH: path, ...own, ...env },
    output: { file: join(folder, `${pod}.log`) },
  });
  processes.set(node, child);
}

async function kill(pod: number): Promise<void> {
  const child = processes.get(addressOf(pod));
  child?.kill('SIGKILL');
  await child?.exited;
}

/** Waits until the servers of an address are complete. Returns their summary. */
async function untilWhole(url: string, summary: RegExp): Promise<string> {
  const isWhole = async () => {
    const { summary: found, failoverFaults, nodes } = await inspectRedis({ url });
    if (!summary.test(found) || failoverFaults.length > 0) return false;
    expect(nodes.every(({ memory }) => memory.policy === 'noeviction')).toBe(true);
    return found;
  };
  return until(isWhole, { ...FORMED, what: `${url} to be whole` });
}

test(
  'three servers and three Sentinels, in which the former primary becomes a replica',
  async () => {
    const servers = [1, 2, 3];
    const sentinels = [4, 5, 6];
    const env = {
      NODES: servers.map(addressOf).join(' '),
      SENTINELS: sentinels.map(addressOf).join(' '),
    };
    for (const pod of servers ?? []) await start('valkey-sentinel/start-valkey.sh', pod, env);
    for (const pod of sentinels ?? []) await start('valkey-sentinel/start-sentinel.sh', pod, env);
    const url = `redis+sentinel://${sentinels.map(addressOf).join()}/carillon`;
    const whole = /with 2 replicas and 3 Sentinels/;
    expect(await untilWhole(url, whole)).toContain(`primary ${addressOf(1)}:6379`);
    await kill(1);
    const isReplaced = async () =>
      !(await inspectRedis({ url })).summary.startsWith(`primary ${addressOf(1)}`);
    await until(isReplaced, FORMED);
    await start('valkey-sentinel/start-valkey.sh', 1, env);
    expect(await untilWhole(url, whole)).not.toContain(addressOf(1));
  },
  TEST_MS,
);

test(
  'a cluster of three primaries with a replica each, which a node joins again',
  async () => {
    const pods = [1, 2, 3, 4, 5, 6];
    const env = { NODES: pods.map(addressOf).join(' ') };
    const script = 'valkey-cluster/start-cluster-node.sh';
    for (const pod of pods) await start(script, pod, env);
    const url = `redis+cluster://${pods.slice(0, 3).map(addressOf).join()}`;
    const whole = /^cluster of 3 primaries with 3 replicas$/;
    await untilWhole(url, whole);
    await kill(1);
    const isReplaced = async () => {
      const { failoverFaults } = await inspectRedis({ url });
      return failoverFaults.some((fault) => fault.includes('has no replica'));
    };
    await until(isReplaced, FORMED);
    await start(script, 1, env);
    await untilWhole(url, whole);
  },
  TEST_MS,
);

/** Starts a mongod as the compose file does, with a smaller cache. */
async function startMember(host: string): Promise<void> {
  const dbPath = join(folder, host);
  await mkdir(dbPath);
  const args = ['--replSet=carillon', `--bind_ip=${host}`, `--port=${MONGODB_PORT}`];
  const small = ['--wiredTigerCacheSizeGB=0.25', '--oplogSize=64', '--nounixsocket', '--quiet'];
  const command = process.env.CARILLON_MONGOD ?? 'mongod';
  const all = [...args, `--dbpath=${dbPath}`, ...small];
  processes.set(host, startProcess(command, all, { output: 'ignored' }));
  await until(() => isAcceptingConnections(host, MONGODB_PORT), FORMED);
}

/** Makes a replica set of one member, as releases before the settings did. */
async function initiateAlone(host: string): Promise<void> {
  const client = new MongoClient(`mongodb://${host}:${MONGODB_PORT}/?directConnection=true`);
  try {
    const config = { _id: 'carillon', members: [{ _id: 0, host: `${host}:${MONGODB_PORT}` }] };
    await client.db('admin').command({ replSetInitiate: config });
  } finally {
    await client.close();
  }
}

const uriOf = (members: readonly string[]) =>
  `mongodb://${members.join()}/carillon?replicaSet=carillon`;

/** Starts the script of the compose file as the service `migrate` does. */
async function startScript(members: readonly string[], hosts: readonly string[]) {
  const file = join(folder, 'mongodb-uri');
  await writeFile(file, `${uriOf(members)}\n`);
  const child = startProcess(process.execPath, [SCRIPT, 'migrate'], {
    env: { PATH: process.env.PATH, MONGODB_URI_FILE: file, MONGODB_MEMBERS: hosts.join(' ') },
  });
  processes.set(SCRIPT, child);
  return child;
}

/** Runs the script to its end. @returns its output */
async function runScript(members: readonly string[], hosts: readonly string[]): Promise<string> {
  const child = await startScript(members, hosts);
  const code = await child.exited;
  expect({ code, output: child.output() }).toMatchObject({ code: 0 });
  return child.output();
}

/** Waits until all of some members have data, and returns how often the set was changed, and its setting. */
async function untilFormed(members: readonly string[]) {
  const client = await new MongoClient(uriOf(members)).connect();
  try {
    const admin = client.db('admin');
    const formed = ['PRIMARY', ...members.slice(1).map(() => 'SECONDARY')].join();
    const isFormed = async () => {
      const status = await admin.command({ replSetGetStatus: 1 });
      const states = (status.members as { stateStr: string }[]).map(({ stateStr }) => stateStr);
      return states.sort().join() === formed;
    };
    await until(isFormed, { ...FORMED, what: `a set of ${members.length}` });
    const { version, settings } = (await admin.command({ replSetGetConfig: 1 })).config;
    return { version, electionTimeoutMillis: settings.electionTimeoutMillis };
  } finally {
    await client.close();
  }
}

test(
  'a replica set of three MongoDB members at once, and a second run changes nothing',
  async () => {
    const hosts = [1, 2, 3].map(addressOf);
    for (const host of hosts) await startMember(host);
    expect(await runScript(hosts, hosts)).toContain('MongoDB is a replica set of 3 members.');
    const formed = await untilFormed(hosts);
    expect(formed.electionTimeoutMillis).toBe(4_000);
    const again = await runScript(hosts, hosts);
    expect(again).toContain('MongoDB is replica set carillon of 3 members.');
    expect(await untilFormed(hosts)).toEqual(formed);
  },
  TEST_MS,
);

test(
  'a replica set of one MongoDB member with MongoDB’s settings gets Carillon’s, and two more members',
  async () => {
    const hosts = [1, 2, 3].map(addressOf);
    await startMember(addressOf(1));
    await initiateAlone(addressOf(1));
    const one = await runScript(hosts.slice(0, 1), hosts);
    expect(one).toContain('MongoDB is a replica set of one member.');
    const alone = await untilFormed(hosts.slice(0, 1));
    expect(alone).toEqual({ version: 2, electionTimeoutMillis: 4_000 });
    for (const host of hosts.slice(1)) await startMember(host);
    expect(await runScript(hosts, hosts)).toContain('MongoDB is a replica set of 3 members.');
    expect(await untilFormed(hosts)).toMatchObject({ electionTimeoutMillis: 4_000 });
  },
  TEST_MS,
);

test(
  'the script writes once why a MongoDB is not yet a replica set',
  async () => {
    const hosts = [addressOf(1)];
    const child = await startScript(hosts, hosts);
    const refused = `MongoDB is not yet a replica set: connect ECONNREFUSED ${addressOf(1)}:`;
    await until(() => child.output().includes(refused), FORMED);
    await startMember(addressOf(1));
    expect(await child.exited).toBe(0);
    expect(child.output().split(refused)).toHaveLength(2);
    expect(child.output()).toContain('MongoDB is a replica set of one member.');
  },
  TEST_MS,
);
