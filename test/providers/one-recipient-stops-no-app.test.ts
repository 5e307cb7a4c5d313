import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { send } from '../support/end-to-end/pushes.ts';
import { type DocumentedAnswer, readAnswersTable } from '../support/providers/answers-table.ts';
import type { ProviderFixture } from '../support/providers/fixture.ts';
import {
  createAppWithOneBadDevice,
  untilAccepted,
} from '../support/providers/one-bad-recipient.ts';
import { useSharedProviders } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const GOOD = 60;
const ROUNDS = 5;
/** Far below the minute for which one recipient's answer could stop others. */
const SOON_MS = 10_000;

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

test.each(ANSWERS)('$channel $answer for one recipient', async (documented: DocumentedAnswer) => {
  const { tenant, bad, good } = await createAppWithOneBadDevice(fixture, documented, GOOD);
  const push = await send(tenant, [bad.token, ...good.tokens]);
  await untilAccepted(fixture, push, good.addresses, SOON_MS);
  const lone = await send(tenant, bad.token);
  for (let round = 0; round < ROUNDS; round += 1) {
    const next = await send(tenant, good.tokens[round] ?? '');
    await untilAccepted(fixture, next, [good.addresses[round] ?? ''], SOON_MS);
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
