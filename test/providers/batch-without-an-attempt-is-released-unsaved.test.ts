import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { SEVERAL } from '../../packages/core/src/circuit.ts';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { registerIphone } from '../support/providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { until } from '../support/until.ts';

let fixture: ProviderFixture;
let mongo: TestMongo;
beforeAll(async () => {
  fixture = await openProviderFixture();
  mongo = await openMongo(fixture.stack.dev);
});
afterAll(async () => {
  await mongo?.close();
  await fixture?.close();
});

test('a batch that waits for an open circuit is released unchanged, by one write', async () => {
  const tenant = await fixture.tenant();
  const iphone = await registerIphone(tenant.dev);
  await fixture.sandbox.setFaults('apns', { refuseCredential: true });
  for (let n = 0; n < SEVERAL; n += 1) await send(tenant, (await registerIphone(tenant.dev)).token);
  const isOpen = async () => (await fixture.sandbox.counts()).requests === SEVERAL;
  await until(isOpen, { what: 'answers that open the circuit' });
  const push = await send(tenant, iphone.token);
  const readReleased = () =>
    mongo.db
      .collection<PushDocument>('pushes')
      .findOne({ _id: push.id, 'work.tries': { $gt: 0 }, 'work.claim': { $exists: false } });
  const what = { timeoutMs: 30_000, what: 'a released batch' };
  const { work } = await until(async () => (await readReleased()) ?? false, what);
  expect(work).toEqual({
    ...{ state: 'ready', channel: 'apns', at: expect.any(Date), tries: 1, n: 1 },
    tokens: iphone.token,
  });
}, 60_000);
