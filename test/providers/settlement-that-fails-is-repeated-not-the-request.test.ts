import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { BATCH_LEASE_MS } from '../../packages/core/src/batch.ts';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { type CutPoint, type CuttingProxy, startCuttingProxy } from '../support/cutting-proxy.ts';
import { startDeliveryWorker } from '../support/delivery-worker.ts';
import { type Sent, send } from '../support/end-to-end/pushes.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import type { ServiceProcess } from '../support/operators/service-process.ts';
import { registerIphone } from '../support/providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { registerIphones } from '../support/providers/provider-device-pool.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const PUSHES = 40;
const MAX_ROUNDS = 8;
/** Responses that come after what the test does when all requests have arrived, and before the deadline of APNs. */
const SLOW_RESPONSES = { delayMs: 5_000 };
/** Text that only a settlement contains: in BSON, the state that it sets. */
const SETTLEMENT = '\x02work.state\0\x07\0\0\0closed\0';
const CUT_POINTS: readonly CutPoint[] = ['before', 'in the middle', 'after'];

let fixture: ProviderFixture;
let tenant: TestTenant;
let mongo: TestMongo;
let cutting: CuttingProxy;
let proxy: TcpProxy;
let worker: ServiceProcess;
beforeAll(async () => {
  fixture = await openProviderFixture({ deliveryWorkers: 0, ownMongodb: true });
  tenant = await fixture.tenant();
  mongo = await openMongo(fixture.stack.dev);
  const port = Number(new URL(fixture.stack.dev.mongodb).port);
  [cutting, proxy] = [await startCuttingProxy(port), await startTcpProxy(port)];
});
beforeEach(() => fixture.sandbox.setFaults('apns', SLOW_RESPONSES));
afterEach(async () => {
  await worker?.stop();
  await fixture?.sandbox.reset();
});
afterAll(async () => {
  await Promise.all([cutting?.stop(), proxy?.stop(), mongo?.close()]);
  await fixture?.close();
});

/** Starts a worker that reaches MongoDB through a proxy. */
async function startWorkerBehind({ port }: { port: number }, env = {}): Promise<void> {
  const uri = new URL(fixture.stack.dev.mongodb);
  uri.port = String(port);
  worker = await startDeliveryWorker(fixture.stack, { MONGODB_URI: uri.href, ...env });
  await worker.untilReady();
}

/** Sends pushes to one iPhone each, and waits until APNs has all requests and has responded to none. */
async function sendWithoutResponse(count: number): Promise<Sent[]> {
  const { tokens } = await registerIphones(tenant, count);
  const pushes = await Promise.all(tokens.map((token) => send(tenant, token)));
  const haveArrived = async () => (await fixture.sandbox.counts()).requests >= count;
  await until(haveArrived, { timeoutMs: 60_000, everyMs: 20, what: 'all requests at APNs' });
  return pushes;
}

async function expectSentOnce(pushes: readonly Sent[]): Promise<void> {
  for (const push of pushes) await untilOutcomeCounts(fixture.store, push, { sent: 1 });
  expect((await fixture.sandbox.counts()).duplicates).toBe(0);
}

const countLoggedFailures = () => worker.output().split('a step failed').length - 1;

test.each(CUT_POINTS)(
  'a worker that is stopped while its settlement is cut %s repeats no request',
  async (point) => {
    await startWorkerBehind(cutting);
    const pushes = await sendWithoutResponse(1);
    cutting.cutAtWrite(1, point, { collection: 'pushes', bytes: SETTLEMENT });
    worker.kill('SIGTERM');
    expect(await worker.exited).toBe(0);
    expect(cutting.isCutDone()).toBe(true);
    await startWorkerBehind(cutting);
    await expectSentOnce(pushes);
  },
  120_000,
);

test('while MongoDB is unavailable for a moment, a worker keeps the responses of APNs', async () => {
  await startWorkerBehind(proxy);
  const pushes = await sendWithoutResponse(PUSHES);
  proxy.cut();
  // Settlements at the same time share a statement, and share its failure.
  const haveFailed = () => countLoggedFailures() >= PUSHES;
  await until(haveFailed, { timeoutMs: 60_000, what: 'a failed settlement of each push' });
  proxy.restore();
  await expectSentOnce(pushes);
});

/** Lists the batches of the worker that were not settled, and whose lease may have ended: they took as long. */
const listLapsed = () =>
  worker
    .output()
    .split('\n')
    .filter((line) => line.includes('"msg":"batch"'))
    .map((line) => JSON.parse(line) as { end: string; ms: number })
    .filter(({ end, ms }) => end !== 'settled' && ms >= BATCH_LEASE_MS);

/** Sends pushes by a worker that is blocked when all are in progress. Returns how often each batch was claimed. */
async function countClaims(token: string): Promise<number[]> {
  // The lease of 6 s has less than its margin left then, and MongoDB still has the claim.
  await startWorkerBehind(proxy, { FAILPOINTS: 'claim:block=5500#1' });
  const pushes = mongo.db.collection<PushDocument>('pushes');
  const sent = await Promise.all(Array.from({ length: PUSHES }, () => send(tenant, token)));
  /** Waits until the batch of a push is settled, and returns how often it was claimed. */
  const untilSettled = ({ id }: Sent) => {
    const readTries = async () =>
      (await pushes.findOne({ _id: id, 'work.state': 'closed' }))?.work?.tries;
    return until(readTries, { what: 'a settled batch' });
  };
  const claims = await Promise.all(sent.map(untilSettled));
  await worker.stop();
  return claims;
}

/** Repeats that until no lease has ended before the worker could renew it. */
async function countClaimsInTime(token: string): Promise<number[]> {
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const claims = await countClaims(token);
    if (listLapsed().length === 0) return claims;
  }
  throw new Error('a lease ended in each round');
}

test('a worker that ran too late to renew its leases keeps its claims, and delivers the batches', async () => {
  await fixture.sandbox.reset();
  const [iphone, offline] = [await registerIphone(tenant.dev), await newMqttDevice(tenant.dev)];
  for (const { token } of [iphone, offline]) {
    expect(await countClaimsInTime(token)).toEqual(Array(PUSHES).fill(1));
  }
  expect((await fixture.sandbox.counts()).duplicates).toBe(0);
});
