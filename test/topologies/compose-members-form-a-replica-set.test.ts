import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { MongoClient } from 'mongodb';
import { isAcceptingConnections } from '../../tools/supervisor/src/probes.ts';
import { startProcess, type TestProcess } from '../support/child-process.ts';
import { createDataFolder } from '../support/data-folder.ts';
import { until } from '../support/until.ts';

const SCRIPT = 'deploy/image/with-replica-set.mjs';
const PORT = 27_017;
const TEST_MS = 180_000;
const FORMED = { timeoutMs: 60_000, everyMs: 200 };

let folder: string;
/** Addresses of this machine that simulate the containers; each run has its own. */
let hosts: string[];
const processes: TestProcess[] = [];

beforeEach(async () => {
  folder = await createDataFolder();
  const network = `127.${1 + (process.pid % 250)}.${Math.floor(Math.random() * 250)}`;
  hosts = [1, 2, 3].map((n) => `${network}.${n}`);
});
afterEach(async () => {
  for (const one of processes) one.kill('SIGKILL');
  await Promise.all(processes.splice(0).map(({ exited }) => exited));
  await rm(folder, { recursive: true, force: true });
});

/** Starts a mongod as the compose file does, with a smaller cache. */
async function startMember(host: string): Promise<void> {
  const dbPath = join(folder, host);
  await mkdir(dbPath);
  const args = ['--replSet=carillon', `--bind_ip=${host}`, `--port=${PORT}`, `--dbpath=${dbPath}`];
  const small = ['--wiredTigerCacheSizeGB=0.25', '--oplogSize=64', '--nounixsocket', '--quiet'];
  const command = process.env.CARILLON_MONGOD ?? 'mongod';
  processes.push(startProcess(command, [...args, ...small], { output: 'ignored' }));
  await until(() => isAcceptingConnections(host, PORT), FORMED);
}

const addressOf = (members: readonly string[]) =>
  `mongodb://${members.join()}/carillon?replicaSet=carillon`;

/** Runs the script as the service `migrate` does. */
async function runScript(members: readonly string[]): Promise<string> {
  const file = join(folder, 'mongodb-uri');
  await writeFile(file, `${addressOf(members)}\n`);
  const child = startProcess(process.execPath, [SCRIPT, 'migrate'], {
    env: { PATH: process.env.PATH, MONGODB_URI_FILE: file, MONGODB_MEMBERS: hosts.join(' ') },
  });
  const code = await child.exited;
  expect({ code, output: child.output() }).toMatchObject({ code: 0 });
  return child.output();
}

/** Waits until all of some members have data, and returns how often the set was changed. */
async function untilFormed(members: readonly string[]): Promise<number> {
  const client = await new MongoClient(addressOf(members)).connect();
  try {
    const admin = client.db('admin');
    const isFormed = async () => {
      const status = await admin.command({ replSetGetStatus: 1 });
      const states = (status.members as { stateStr: string }[]).map(({ stateStr }) => stateStr);
      return (
        states.sort().join() === ['PRIMARY', ...members.slice(1).map(() => 'SECONDARY')].join()
      );
    };
    await until(isFormed, { ...FORMED, what: `a set of ${members.length}` });
    return (await admin.command({ replSetGetConfig: 1 })).config.version;
  } finally {
    await client.close();
  }
}

test(
  'three members at once, and a second run changes nothing',
  async () => {
    for (const host of hosts) await startMember(host);
    expect(await runScript(hosts)).toContain('MongoDB is a replica set of 3 members.');
    const version = await untilFormed(hosts);
    expect(await runScript(hosts)).toContain('MongoDB is replica set carillon of 3 members.');
    expect(await untilFormed(hosts)).toBe(version);
  },
  TEST_MS,
);

test(
  'one member, to which two are added',
  async () => {
    const [first = ''] = hosts;
    await startMember(first);
    expect(await runScript([first])).toContain('MongoDB is a replica set of one member.');
    for (const host of hosts.slice(1)) await startMember(host);
    expect(await runScript(hosts)).toContain('MongoDB is a replica set of 3 members.');
    await untilFormed(hosts);
  },
  TEST_MS,
);
