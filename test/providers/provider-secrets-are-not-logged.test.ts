import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { runCarillonJson } from '../support/carillon.ts';
import { readLogLines } from '../support/end-to-end/logs.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { openMongo } from '../support/mongo.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import {
  registerAndroids,
  registerBrowsers,
  registerIphones,
} from '../support/providers/provider-device-pool.ts';
import { listSecretParts } from '../support/providers/secret-parts.ts';
import { openRedis } from '../support/redis.ts';
import { readRedisContents } from '../support/redis-contents.ts';
import { until } from '../support/until.ts';

const PER_CHANNEL = 50;
const CHANNELS = ['apns', 'fcm', 'web-push'] as const;
/** Faults of all providers, one after the other. */
const FAULTS = [
  { expireTokens: true },
  { dropEvery: 5 },
  { blackHole: true },
  { refuseCredential: true },
] as const;
const POLL_OPTIONS = { timeoutMs: 30_000 };
const NO_FAULTS = { dropEvery: null, blackHole: false, refuseCredential: false };
/** How Google's access tokens and all JSON Web Tokens begin; the latter have a JSON object first. */
const TOKENS = [/ya29\./, /eyJ[\w-]{10,}\.eyJ/, /[Bb]earer [\w-]/, /vapid t=/];

let fixture: ProviderFixture;
let tenant: TestTenant;
/** Parts of secrets that occur nowhere else. */
let secrets: string[];
beforeAll(async () => {
  fixture = await openProviderFixture();
  tenant = await fixture.tenant({ fcmFallbackSeconds: 0 });
  secrets = [...listSecretParts(fixture.credentials), tenant.apiKey];
});
afterAll(() => fixture?.close());

function findSecrets(text: string): string[] {
  const pieces = secrets.filter((secret) => text.includes(secret));
  const tokens = TOKENS.filter((token) => token.test(text)).map(String);
  return [...pieces, ...tokens];
}

test('with all channels in use and every fault: there is data to search', async () => {
  const { sandbox } = fixture;
  const pools = [
    await registerIphones(tenant, PER_CHANNEL),
    await registerAndroids(tenant, PER_CHANNEL),
    await registerBrowsers(tenant, sandbox, PER_CHANNEL),
  ];
  const tokens = pools.flatMap((pool) => pool.tokens);
  for (const fault of FAULTS) {
    for (const channel of CHANNELS) await sandbox.setFaults(channel, { ...NO_FAULTS, ...fault });
    const push = await send(tenant, tokens);
    await until(async () => {
      const seen = new Set((await sandbox.received(push.id)).map(({ channel }) => channel));
      return seen.size === CHANNELS.length;
    }, POLL_OPTIONS);
    if ('refuseCredential' in fault) break;
    // A circuit that is still open after one fault would send no request to the next.
    for (const channel of CHANNELS) await sandbox.setFaults(channel, NO_FAULTS);
    await until(async () => {
      const taken = (await sandbox.received(push.id)).filter(
        ({ status }) => status !== null && status < 300,
      );
      return new Set(taken.map(({ to }) => to)).size === tokens.length;
    }, POLL_OPTIONS);
  }
  const args = ['credential', 'list', '--app', tenant.app];
  await until(async () =>
    JSON.stringify(await runCarillonJson(fixture.stack.home, ...args)).includes('refused'),
  );
}, 120_000);

test('in no log', () => {
  const lines = readLogLines(fixture.stack.home);
  expect(lines.some((line) => line.includes('credential refused'))).toBe(true);
  expect(lines.filter((line) => findSecrets(line).length > 0)).toEqual([]);
});

test('in no key of Redis', async () => {
  const redis = await openRedis(fixture.stack.dev);
  const entries = await readRedisContents(redis);
  redis.disconnect();
  expect(entries.length).toBeGreaterThan(0);
  expect(findSecrets(entries.map(({ key, text }) => `${key} ${text}`).join('\n'))).toEqual([]);
});

test('in no metric', async () => {
  const { processes } = fixture.stack.dev;
  const texts = await Promise.all(
    processes.flatMap(({ ops }) =>
      ops === undefined ? [] : [fetch(`${ops}/metrics`).then((response) => response.text())],
    ),
  );
  expect(texts.join('\n')).toContain('carillon_provider_answers_total');
  expect(findSecrets(texts.join('\n'))).toEqual([]);
});

test('in no document of the database, where credentials are sealed', async () => {
  const mongo = await openMongo(fixture.stack.dev);
  const collections = await mongo.db.collections();
  const documents = await Promise.all(collections.map((each) => each.find().toArray()));
  await mongo.close();
  expect(documents.flat().length).toBeGreaterThan(0);
  expect(findSecrets(JSON.stringify(documents))).toEqual([]);
});
