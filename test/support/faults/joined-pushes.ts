import { expect } from '@jest/globals';
import { newDeviceToken, newPushId } from '../../../packages/core/src/ids.ts';
import type { Redis } from '../../../packages/presence/src/redis.ts';
import type { Batch, PushDocument } from '../../../packages/store/src/documents.ts';
import { openMongo, type TestMongo } from '../mongo.ts';
import { type DataServers, startDataServers } from '../operators/data-servers.ts';
import { type ServiceProcess, startService } from '../operators/service-process.ts';
import { openRedis } from '../redis.ts';
import { callApi } from '../stack/call-api.ts';
import type { Stack } from '../stack.ts';
import { until } from '../until.ts';
import { insertDevices } from './device-pool.ts';
import { type JobQueues, openJobQueues } from './job-queues.ts';
import { type SentPush, sendPush } from './pushes.ts';
import { type ServiceSet, startServiceSet } from './service-set.ts';

/** Exists while a worker keeps a job open. */
export const OPEN_KEY = 'send:joinable';
/** List of the pushes that have joined. */
export const ENTRIES_KEY = 'send:joined';
/** Longer than a test waits between opening the key by hand and its push. */
const OPEN_BY_HAND_MS = 60_000;
/** So many jobs at once that each of two workers takes one, and keeps it open. */
const OPENING_JOBS = 20;

type Api = Pick<Stack, 'api'>;

/** One line of a worker's log about a push. */
interface BatchLine {
  work: string;
  end: 'settled' | 'given back' | 'lost' | 'not taken';
}

/** Services whose single pushes join an open job. The test starts the delivery-workers: none runs at first. */
export interface JoinedPushes {
  set: ServiceSet;
  servers: DataServers;
  mongo: TestMongo;
  redis: Redis;
  jobs: JobQueues;
  /** Starts a delivery-worker, and waits until it is ready. It is ended by `stopProcesses`. */
  startWorker(failpoints?: string): Promise<ServiceProcess>;
  /** Starts another API. It is ended by `stopProcesses`. */
  startApi(failpoints: string): Promise<ServiceProcess>;
  /** Makes an API take it for granted that a job is open: two pushes have been sent, one has joined, and both are deleted. */
  prime(api?: Api): Promise<void>;
  /** Makes the workers that run keep a job open. */
  openJobs(): Promise<void>;
  /** Does so until a number of workers keeps one open. */
  untilOpenJobs(count: number): Promise<void>;
  /** Sends a push that joins, after `prime`, and expects that it is inserted with its claim. */
  sendClaimed(to: string, fields?: Record<string, unknown>): Promise<SentPush>;
  /** Reads the batch of a push. */
  readBatch(push: Pick<SentPush, 'id'>): Promise<Batch>;
  countRows(push: Pick<SentPush, 'id'>): Promise<number>;
  stopProcesses(): Promise<void>;
  stop(): Promise<void>;
}

/** Expects the claim that a push was inserted with, of which no worker has stored that it holds it. */
export function expectInitialClaim({ claim, reply, tries }: Batch): void {
  expect({ hasClaim: claim !== undefined, reply, tries }).toEqual({ hasClaim: true, tries: 1 });
}

/** Lists how a worker has ended each of its runs of a push. */
export function listRuns({ output }: ServiceProcess, { id }: Pick<SentPush, 'id'>): string[] {
  return output()
    .split('\n')
    .filter((line) => line.startsWith('{') && line.includes(`"work":"${id}"`))
    .map((line) => (JSON.parse(line) as BatchLine).end);
}

/** Calls an API process of the test. */
export function apiOf({ dev }: Pick<ServiceSet, 'dev'>, { port }: { port: number }): Api {
  const at = { ...dev, api: `http://127.0.0.1:${port}` };
  return { api: (method, path, body) => callApi(at, method, path, body) };
}

/** Starts the services on servers of their own. */
export async function openJoinedPushes(): Promise<JoinedPushes> {
  const servers = await startDataServers();
  const mongo = await openMongo({ mongodb: servers.env.MONGODB_URI });
  const set = await startServiceSet(servers, () => ({}));
  await set.services.find(({ service }) => service === 'delivery-worker')?.stop();
  // Not over the proxy, which a test may cut.
  const redis = await openRedis({ redis: servers.redis.url });
  const jobs = await openJobQueues(servers.redis);
  const started: ServiceProcess[] = [];
  const warmUpToken = newDeviceToken();
  await insertDevices(set, mongo, [warmUpToken]);
  const pushes = mongo.db.collection<PushDocument>('pushes');

  async function start(service: 'api' | 'delivery-worker', failpoints: string) {
    const env = { ...servers.env, ...(failpoints !== '' && { FAILPOINTS: failpoints }) };
    const one = await startService(service, env);
    started.push(one);
    await one.untilReady();
    return one;
  }
  async function readBatch({ id }: Pick<SentPush, 'id'>): Promise<Batch> {
    const push = await pushes.findOne({ _id: id });
    if (push?.work === undefined) throw new Error(`there is no push ${id} with a batch`);
    return push.work;
  }
  async function stopProcesses(): Promise<void> {
    for (const one of started) one.kill('SIGCONT');
    await Promise.all(started.splice(0).map((one) => one.stop()));
    await jobs.resume('send');
  }

  return {
    ...{ set, servers, mongo, redis, jobs, readBatch, stopProcesses },
    ...createOpening({ set, redis, jobs }, warmUpToken),
    startWorker: (failpoints = '') => start('delivery-worker', failpoints),
    startApi: (failpoints) => start('api', failpoints),
    async sendClaimed(to, fields = {}) {
      const push = await sendPush(set, to, fields);
      expectInitialClaim(await readBatch(push));
      return push;
    },
    countRows: ({ id }) => mongo.db.collection('inbox').countDocuments({ push: id }),
    stopProcesses,
    async stop() {
      await stopProcesses();
      await jobs.close();
      redis.disconnect();
      await set.stop();
      await mongo.close();
      await servers.stop();
    },
  };
}

/** Creates the functions that open jobs, for workers or in the view of an API only. */
function createOpening(
  { set, redis, jobs }: Pick<JoinedPushes, 'set' | 'redis' | 'jobs'>,
  warmUpToken: string,
): Pick<JoinedPushes, 'prime' | 'openJobs' | 'untilOpenJobs'> {
  async function openJobs(): Promise<void> {
    await jobs.add('send', { lone: [newPushId(Date.now())] }, { times: OPENING_JOBS });
    await jobs.resume('send');
  }
  return {
    async prime(api = set) {
      await jobs.pause('send');
      await redis.del(ENTRIES_KEY);
      await redis.set(OPEN_KEY, 1, 'PX', OPEN_BY_HAND_MS);
      // After a pause of the API the first one gets a job.
      const warmUps = [await sendPush(api, warmUpToken), await sendPush(api, warmUpToken)];
      const joinedId = warmUps[1]?.id ?? '';
      const listEntries = () => redis.lrange(ENTRIES_KEY, 0, -1);
      const hasJoined = async () => (await listEntries()).some((entry) => entry.includes(joinedId));
      await until(hasJoined, { everyMs: 2, what: 'a push that has joined' });
      // No worker claims them, and so none reaches a failpoint with them.
      for (const { id } of warmUps) await api.api('DELETE', `/pushes/${id}`);
      await redis.del(ENTRIES_KEY);
    },
    openJobs,
    async untilOpenJobs(count) {
      const areOpen = async () => {
        await openJobs();
        const clients = String(await redis.client('LIST'));
        return clients.split('\n').filter((line) => line.includes(' cmd=blpop ')).length >= count;
      };
      await until(areOpen, { everyMs: 50, what: `${count} open jobs` });
    },
  };
}
