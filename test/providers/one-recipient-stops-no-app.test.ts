import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { openMongo } from '../support/mongo.ts';
import { readAnswersTable } from '../support/providers/answers-table.ts';
import type { ProviderFixture } from '../support/providers/fixture.ts';
import {
  createAppWithOneBadDevice,
  untilAccepted,
} from '../support/providers/one-bad-recipient.ts';
import { registerIphones } from '../support/providers/provider-device-pool.ts';
import { useSharedProviders } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const GOOD = 60;
const ROUNDS = 5;

/** One answer of each kind that concerns more than its recipient if several get it, for each provider. */
const ANSWERS = Object.values(
  Object.fromEntries(
    readAnswersTable()
      .filter(({ http, concerns }) => http !== undefined && concerns.includes('several'))
      .map((documented) => [`${documented.channel} ${documented.effect}`, documented]),
  ),
);

let fixture: ProviderFixture;
beforeAll(async () => {
  fixture = await useSharedProviders();
});
afterAll(() => fixture?.close());

interface Attempted {
  recipient: {
    attempts?: { channel: string; detail?: string; tries?: number; next_try?: number }[];
  };
}

test.each(ANSWERS)('$channel $answer for one recipient', async (documented) => {
  const { tenant, bad, good } = await createAppWithOneBadDevice(fixture, documented, GOOD);
  const push = await send(tenant, [bad.token, ...good.tokens]);
  await untilAccepted(fixture, push, good.addresses);
  const lone = await send(tenant, bad.token);
  for (let round = 0; round < ROUNDS; round += 1) {
    const next = await send(tenant, good.tokens[round] ?? '');
    await untilAccepted(fixture, next, [good.addresses[round] ?? '']);
  }

  // The bad one waits by itself, and its sender sees why and until when.
  const path = `/pushes/${push.id}/recipients/${bad.token}`;
  const attempt = await until(async () => {
    const { attempts = [] } = (await tenant.api<Attempted>('GET', path)).json.recipient;
    return attempts.find(({ channel, tries }) => channel === documented.channel && tries);
  });
  expect(attempt).toMatchObject({ tries: 1, next_try: expect.any(Number) });
  expect(attempt.detail).toMatch(new RegExp(`^${documented.http?.status}`));
  const requests = [push, lone].map(async ({ id }) =>
    (await fixture.sandbox.received(id)).filter(({ to }) => to === bad.address),
  );
  expect((await Promise.all(requests)).flat().length).toBeLessThanOrEqual(4);
  expect(ANSWERS).toHaveLength(6);
});

test('the batch of one that waits for an open circuit is released unchanged, by one write', async () => {
  const { sandbox, stack } = fixture;
  const tenant = await fixture.tenant();
  const { tokens, addresses } = await registerIphones(tenant, 40);
  for (const address of addresses)
    await sandbox.scriptPermanently('apns', address, { as: 'InvalidProviderToken' });
  const mongo = await openMongo(stack.dev);
  const pushes = mongo.db.collection<PushDocument>('pushes');
  let work: PushDocument['work'];
  // Each of the workers has a circuit of its own, which opens after several refused recipients.
  for (const token of tokens) {
    const { id } = await send(tenant, token);
    const released = { _id: id, 'work.tries': { $gt: 0 }, 'work.claim': { $exists: false } };
    work = (await until(() => pushes.findOne(released), { what: 'a released batch' })).work;
    if ((await sandbox.received(id)).length === 0) break;
  }
  await mongo.close();
  const [state, channel, at] = ['ready', 'apns', expect.any(Date)];
  expect(work).toEqual({ state, channel, at, tries: 1, n: 1, tokens: work?.tokens });
});
