import type { Db } from 'mongodb';
import { createPresenceKeys } from '../../packages/presence/src/keys.ts';
import type { Redis } from '../../packages/presence/src/redis.ts';
import type {
  BatchDocument,
  InboxDocument,
  PushDocument,
} from '../../packages/store/src/documents.ts';
import { NOTIFY_INDEX } from '../../packages/store/src/notify-mark.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { openJobQueues } from '../support/faults/job-queues.ts';
import { openRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';
import { type History, LEFT, type Left } from './history.ts';
import type { LogLine } from './load.ts';
import { TENANT_NAMES, type TenantName } from './plan.ts';
import type { System } from './system.ts';

const SETTLE_MS = 180_000;
/** Collections whose documents hold events for webhooks until these are reported. */
const REPORTED = ['pushes', 'batches', 'devices'] as const;
/** Rows whose push and batch are logged. */
const DESCRIBED_ROWS = 5;
/** Without the payload. */
const projection = { data: 0 } as const;
/** A stream without an expiry. */
const ENDLESS = -1;

type Tenants = Record<TenantName, Pick<TestTenant, 'app'>>;

/** Unfinished work of a run. */
export interface Rest {
  /** Waits until nothing of some kinds is left; returns what still is when the time is over. */
  untilAtRest(kinds: readonly Left[]): Promise<History['left']>;
  close(): Promise<void>;
}

/** Opens what is read to find unfinished work. */
export async function openRest(
  { redis }: Pick<System, 'redis'>,
  db: Db,
  tenants: Tenants,
  log: LogLine,
): Promise<Rest> {
  const queues = await openJobQueues(redis);
  const client = await openRedis({ redis: redis.url });
  return {
    async untilAtRest(kinds) {
      let left = Object.fromEntries(LEFT.map((kind) => [kind, 0])) as History['left'];
      const isAtRest = async () => {
        left = {
          ...(await countStored(db, tenants)),
          ...(await countStreams(client)),
          jobs: await queues.countLeft(),
        };
        return kinds.every((kind) => left[kind] === 0);
      };
      const atRest = until(isAtRest, { timeoutMs: SETTLE_MS, everyMs: 1_000 });
      await atRest.catch(async () =>
        log({
          ...{ op: 'rest', type: 'fail', left, ids: await listOpenPushes(db, tenants) },
          rows: await describeRows(db),
        }),
      );
      return left;
    },
    async close() {
      client.disconnect();
      await queues.close();
    },
  };
}

async function countStored(
  db: Db,
  tenants: Tenants,
): Promise<Omit<History['left'], 'jobs' | 'gatewayMessages' | 'endlessStreams'>> {
  const pushes = db.collection('pushes');
  const app = ofTenants(tenants);
  const unreported = await Promise.all(
    REPORTED.map((name) =>
      db
        .collection(name)
        .countDocuments({ 'notify.at': { $exists: true } }, { hint: NOTIFY_INDEX }),
    ),
  );
  return {
    openBatches: (await listOpenPushes(db, tenants)).length,
    inboxRows: await db.collection('inbox').countDocuments({}),
    waitingPushes: await pushes.countDocuments({
      ...{ app, state: { $in: ['accepting', 'scheduled'] } },
    }),
    endings: await pushes.countDocuments({ app, ending: { $exists: true } }),
    unreported: unreported.reduce((sum, count) => sum + count, 0),
  };
}

/** Describes some of the rows that are left: the row, its push and its batch, without which nobody finds out how it was left. */
async function describeRows(db: Db): Promise<object[]> {
  const rows = await db.collection<InboxDocument>('inbox').find().limit(DESCRIBED_ROWS).toArray();
  return Promise.all(
    rows.map(async (row) => ({
      row,
      push: await db.collection<PushDocument>('pushes').findOne({ _id: row.push }, { projection }),
      batch: await db
        .collection<BatchDocument>('batches')
        .findOne({ _id: row.work }, { projection }),
    })),
  );
}

/** Lists the pushes with an open batch; the batches of a push that was not accepted stay with it for an hour. */
async function listOpenPushes(db: Db, tenants: Tenants): Promise<string[]> {
  const pushes = db.collection<{ _id: string }>('pushes');
  const batches = db.collection<{ push: string }>('batches');
  const open = { app: ofTenants(tenants), 'work.state': { $in: ['waiting', 'ready'] } };
  const ids = await batches.distinct('push', open);
  const abandoned = await pushes.distinct('_id', { _id: { $in: ids }, state: 'abandoned' });
  const embedded = await pushes.distinct('_id', open);
  return [...embedded, ...ids.filter((id) => !abandoned.includes(id))];
}

function ofTenants(tenants: Tenants): { $in: string[] } {
  return { $in: TENANT_NAMES.map((name) => tenants[name].app) };
}

/**
 * Counts what is in the streams of the gateways, of dead ones as well until they expire, and streams that never do. Replies
 * stay for a worker's successor until they expire.
 */
async function countStreams(
  redis: Redis,
): Promise<Pick<History['left'], 'gatewayMessages' | 'endlessStreams'>> {
  const { gatewayStream, replyStream } = createPresenceKeys();
  const ofGateways = await redis.keys(gatewayStream('*'));
  const ofWorkers = await redis.keys(replyStream('*'));
  const lengths = await Promise.all(ofGateways.map((key) => redis.xlen(key)));
  const ttls = await Promise.all([...ofGateways, ...ofWorkers].map((key) => redis.ttl(key)));
  return {
    gatewayMessages: lengths.reduce((sum, length) => sum + length, 0),
    endlessStreams: ttls.filter((ttl) => ttl === ENDLESS).length,
  };
}
