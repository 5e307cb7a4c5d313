import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { OUTCOMES } from '../../packages/core/src/outcomes.ts';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { migrate } from '../../packages/store/src/schema.ts';
import { insertPush, SHAPES } from '../../packages/store/test/store-under-test.ts';
import { type ReplicaSet, startReplicaSet } from '../support/faults/replica-set.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { openStore, type TestStore } from '../support/open-store.ts';
import { type Network, startNetwork } from '../support/topologies/network.ts';
import { until } from '../support/until.ts';

const LEASE_MS = 60_000;
const ELECTED = { timeoutMs: 60_000, everyMs: 200 };

let network: Network;
let replicaSet: ReplicaSet;
let mongo: TestMongo;
let store: TestStore;
beforeAll(async () => {
  replicaSet = await startReplicaSet({
    async advertise(members) {
      network = await startNetwork(members);
      return network.ports;
    },
  });
  mongo = await openMongo({ mongodb: replicaSet.uri });
  await migrate(mongo.db);
  store = await openStore({ uri: replicaSet.uri, appName: 'test' });
});
afterAll(async () => {
  await store?.close();
  await mongo?.close();
  await replicaSet?.remove();
  await network?.stop();
});
afterEach(() => replicaSet.startAll());

/** Makes the primary lose its writes: it is cut off from its secondaries, and killed. */
async function losePrimary(write: () => Promise<void>): Promise<void> {
  const primary = await replicaSet.findPrimary();
  network.separate([primary], []);
  try {
    await write();
    await primary.kill();
  } finally {
    network.drop();
  }
  await replicaSet.findPrimary();
}

test.each(SHAPES)(
  'a claim that a failover undoes, of a batch %s: the batch is claimed again, and the first claim writes nothing',
  async (shape) => {
    const push = await insertPush(
      { pushes: mongo.db.collection('pushes'), batches: mongo.db.collection('batches') },
      ['device1', 'device2'],
      { shape },
    );
    const [id = ''] = push.batchIds;
    let lost: string | undefined;
    await losePrimary(async () => {
      lost = (await store.batchTable.claim(id, 'first', LEASE_MS))?.claim;
    });
    expect(lost).toBeDefined();
    const claim = lost ?? '';
    const claimAgain = () => store.batchTable.claim(id, 'second', LEASE_MS);
    // Its lease has not ended: it was undone.
    const second = await until(claimAgain, ELECTED);
    expect(second.work.before).toBeUndefined();
    const outcomes = new Uint8Array(second.work.n).fill(OUTCOMES.delivered);
    const latenciesMs = new Uint32Array(second.work.n);
    expect(await store.batchTable.renew([{ id, claim }], LEASE_MS)).toEqual(new Set());
    const progress = { id, claim, outcomes, latenciesMs, deferred: [] };
    expect(await store.batchTable.saveOutcomes(progress)).toBe(false);
    expect(await store.batchTable.settle({ id, claim, outcomes, latenciesMs })).toBeUndefined();
    expect(
      await store.batchTable.settle({ id, claim: second.claim, outcomes, latenciesMs }),
    ).toBeDefined();
    await replicaSet.startAll();
  },
  240_000,
);

test('a failover that undoes the renewal of a lease loses nothing: the claim is valid until another one is made', async () => {
  const push = await insertPush(
    { pushes: mongo.db.collection('pushes'), batches: mongo.db.collection('batches') },
    ['device1'],
  );
  const claimed = await store.batchTable.claim(push.id, 'first', LEASE_MS);
  const pushes = mongo.db.collection<PushDocument>('pushes');
  // The claim itself is on all members.
  const change = { $set: { app: claimed?.sendable?.app ?? '' } };
  await pushes.updateOne({ _id: push.id }, change, { writeConcern: { w: 3 } });
  const held = [{ id: push.id, claim: claimed?.claim ?? '' }];
  await losePrimary(async () => {
    expect((await store.batchTable.renew(held, 2 * LEASE_MS)).size).toBe(1);
  });
  await until(async () => (await store.batchTable.renew(held, LEASE_MS)).size === 1, ELECTED);
}, 240_000);
