import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { MongoClient } from 'mongodb';
import { createDataFolder } from '../data-folder.ts';
import { until } from '../until.ts';
import { fakeTimeEnv } from './fake-clock.ts';
import { createMongodProcess, type MongodProcess } from './mongod-process.ts';

const NAME = 'test';
const MEMBERS = 3;
/** A primary that sees no majority steps down after this time, and the others elect another one. Default: 10 s. */
const ELECTION_TIMEOUT_MS = 4_000;
/**
 * A secondary that loses its source queries the same one again before it selects another, by default. If that is a primary that
 * is frozen, no write has its majority for these seconds more.
 */
const NO_SECOND_ATTEMPT = ['--setParameter', 'oplogFetcherSteadyStateMaxFetcherRestarts=0'];
const ELECTED_WITHIN_MS = 60_000;
const STEP_DOWN_SECONDS = 10;

/** How a replica set is started. */
export interface ReplicaSetOptions {
  /** Seconds by which the clock of each member is off, which takes libfaketime. The first two may be primaries. */
  clocks?: readonly number[];
  /**
   * Returns the ports by which the others and the clients reach each member; if absent, a member's own port is used.
   */
  advertise?: (members: readonly MongodProcess[]) => Promise<readonly number[]>;
  /** It outlives the test file that starts it. */
  isLent?: boolean;
}

/** A replica set of three mongods on this machine. */
export interface ReplicaSet {
  uri: string;
  members: readonly MongodProcess[];
  /** Waits until there is a primary, and returns it. */
  findPrimary(): Promise<MongodProcess>;
  /** Makes the primary step down for some seconds. */
  stepDown(): Promise<void>;
  /** Starts the members that are not running. */
  startAll(): Promise<void>;
  remove(): Promise<void>;
}

/** Starts the members and waits until they have elected a primary. */
export async function startReplicaSet({
  clocks = [],
  advertise = async (members) => members.map(({ port }) => port),
  isLent = false,
}: ReplicaSetOptions = {}): Promise<ReplicaSet> {
  const folder = await createDataFolder();
  const members: MongodProcess[] = [];
  for (let n = 0; n < MEMBERS; n += 1) {
    const dbPath = join(folder, `${n}`);
    await mkdir(dbPath);
    const moreArgs = ['--replSet', NAME, '--oplogSize', '64', ...NO_SECOND_ATTEMPT];
    const env = clockEnv(clocks[n] ?? 0);
    members.push(await createMongodProcess(dbPath, { moreArgs, env, isLent }));
  }
  const remove = async () => {
    for (const member of members) member.signal('SIGCONT');
    await Promise.all(members.map((member) => member.kill()));
    await rm(folder, { recursive: true, force: true });
  };
  const hosts = (await advertise(members)).map((port) => `127.0.0.1:${port}`);
  const uri = `mongodb://${hosts.join()}/carillon?replicaSet=${NAME}`;
  const replicaSet: ReplicaSet = {
    uri,
    members,
    async findPrimary() {
      const isPrimary = async () => {
        for (const member of members) {
          const hello = await runOn(member, { hello: 1 }).catch(() => undefined);
          if (hello?.isWritablePrimary === true) return member;
        }
        return undefined;
      };
      return until(isPrimary, { timeoutMs: ELECTED_WITHIN_MS, everyMs: 100, what: 'a primary' });
    },
    async stepDown() {
      const command = { replSetStepDown: STEP_DOWN_SECONDS, secondaryCatchUpPeriodSecs: 5 };
      // Refused while the member that may be elected has not caught up: it may have been started just now.
      const stepDown = async () => runOn(await replicaSet.findPrimary(), command);
      await until(stepDown, { what: 'a primary that steps down' });
    },
    async startAll() {
      const stopped = members.filter((member) => !member.isRunning());
      await Promise.all(stopped.map((member) => member.start()));
    },
    remove,
  };
  try {
    await replicaSet.startAll();
    const [first] = members;
    if (first !== undefined) await runOn(first, { replSetInitiate: buildConfig(hosts) });
    await replicaSet.findPrimary();
    return replicaSet;
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Returns the environment of a process whose clock is off. */
function clockEnv(seconds: number): Record<string, string> {
  if (seconds === 0) return {};
  return { ...fakeTimeEnv(), FAKETIME: `${seconds < 0 ? '' : '+'}${seconds}s` };
}

function buildConfig(hosts: readonly string[]) {
  return {
    _id: NAME,
    // The last one votes and stores, and leaves the role of the primary to the two others.
    members: hosts.map((host, _id) => ({ _id, host, priority: _id === MEMBERS - 1 ? 0 : 1 })),
    settings: { electionTimeoutMillis: ELECTION_TIMEOUT_MS },
  };
}

/** Returns by how many milliseconds the clock of a member is at most ahead of this process. */
export async function readMaxOffsetMs(member: MongodProcess): Promise<number> {
  const requestedAt = performance.timeOrigin + performance.now();
  const { localTime } = await runOn(member, { hello: 1 });
  return (localTime as Date).getTime() - requestedAt;
}

/** Runs a command on one member, whatever its state. */
export async function runOn(
  { port, isRunning }: MongodProcess,
  command: Record<string, unknown>,
): Promise<Record<string, unknown>> {
  if (!isRunning()) throw new Error('the member is not running');
  const client = new MongoClient(`mongodb://127.0.0.1:${port}/?directConnection=true`, {
    serverSelectionTimeoutMS: 2_000,
    socketTimeoutMS: 20_000,
  });
  try {
    return await client.db('admin').command(command);
  } finally {
    await client.close();
  }
}
