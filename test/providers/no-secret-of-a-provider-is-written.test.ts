import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { askCarillon } from '../support/carillon.ts';
import { openMongo } from '../support/mongo.ts';
import { gatherAndroids, gatherBrowsers, gatherIphones } from '../support/providers/crowd.ts';
import { openProviderScene, type ProviderScene } from '../support/providers/scene.ts';
import { openRedis } from '../support/redis.ts';
import { allLogLines } from '../support/thread/logs.ts';
import { send } from '../support/thread/pushes.ts';
import { until } from '../support/until.ts';

const EACH = 50;
const CHANNELS = ['apns', 'fcm', 'web-push'] as const;
/** What goes wrong at all providers, one after the other. */
const FAULTS = [
  { expireTokens: true },
  { dropEvery: 5 },
  { blackHole: true },
  { refuseCredential: true },
] as const;
const PATIENT = { timeoutMs: 30_000 };
const WELL = { dropEvery: null, blackHole: false, refuseCredential: false };
/** How Google's access tokens and all JSON Web Tokens begin; the latter have a JSON object first. */
const TOKENS = [/ya29\./, /eyJ[\w-]{10,}\.eyJ/, /[Bb]earer [\w-]/, /vapid t=/];

let scene: ProviderScene;
let tenant: TestTenant;
/** Pieces of secrets that nobody else has. */
let secrets: string[];
beforeAll(async () => {
  scene = await openProviderScene();
  tenant = await scene.tenant();
  secrets = [...secretPieces(), tenant.apiKey];
  await scene.store.apps.change(tenant.app, { fcmFallbackSeconds: 0 });
});
afterAll(() => scene?.close());

/** The lines in the middle of each private key. */
function secretPieces(): string[] {
  const { apns, fcm } = scene.credentials;
  const pems = [apns.key, apns.certificateKey, fcm.serviceAccount.private_key];
  const lines = pems.flatMap((pem) => pem.trim().split('\n').slice(1, -1));
  return [...lines.filter((line) => line.length > 20), WEB_PUSH_PRIVATE_KEY];
}

/** Of the pair that every tenant of a scene has. */
const WEB_PUSH_PRIVATE_KEY = 'f67HL8PKb6W0s_Wxbg1uvkqPC6xdRRNH1IIVm_j0tmA';

function found(text: string): string[] {
  const pieces = secrets.filter((secret) => text.includes(secret));
  const tokens = TOKENS.filter((token) => token.test(text)).map(String);
  return [...pieces, ...tokens];
}

test('with all channels at work and every fault: there is something to look through', async () => {
  const { sandbox } = scene;
  const crowds = [
    await gatherIphones(tenant, EACH),
    await gatherAndroids(tenant, EACH),
    await gatherBrowsers(tenant, sandbox, EACH),
  ];
  const tokens = crowds.flatMap((crowd) => crowd.tokens);
  for (const fault of FAULTS) {
    for (const channel of CHANNELS) await sandbox.behave(channel, { ...WELL, ...fault });
    const push = await send(tenant, tokens);
    await until(async () => {
      const seen = new Set((await sandbox.received(push.id)).map(({ channel }) => channel));
      return seen.size === CHANNELS.length;
    }, PATIENT);
    if ('refuseCredential' in fault) break;
    // A line that still rests from one fault would let nobody meet the next.
    for (const channel of CHANNELS) await sandbox.behave(channel, WELL);
    await until(async () => {
      const taken = (await sandbox.received(push.id)).filter(
        ({ status }) => status !== null && status < 300,
      );
      return new Set(taken.map(({ to }) => to)).size === tokens.length;
    }, PATIENT);
  }
  const args = ['credential', 'list', '--app', tenant.app];
  await until(async () =>
    JSON.stringify(await askCarillon(scene.stack.home, ...args)).includes('refused'),
  );
}, 120_000);

test('in no log', () => {
  const lines = allLogLines(scene.stack.home);
  expect(lines.some((line) => line.includes('credential refused'))).toBe(true);
  expect(lines.filter((line) => found(line).length > 0)).toEqual([]);
});

test('in nothing that Redis holds', async () => {
  const redis = await openRedis(scene.stack.dev);
  const keys = await redis.keys('*');
  const values = await Promise.all(keys.map((key) => redis.dumpBuffer(key)));
  redis.disconnect();
  expect(keys.length).toBeGreaterThan(0);
  expect(found([...keys, ...values.map((value) => value?.toString('latin1'))].join('\n'))).toEqual(
    [],
  );
});

test('in no metric', async () => {
  const { processes } = scene.stack.dev;
  const texts = await Promise.all(
    processes.flatMap(({ ops }) =>
      ops === undefined ? [] : [fetch(`${ops}/metrics`).then((answer) => answer.text())],
    ),
  );
  expect(texts.join('\n')).toContain('carillon_provider_answers_total');
  expect(found(texts.join('\n'))).toEqual([]);
});

test('in no document of the database, where credentials lie sealed', async () => {
  const mongo = await openMongo(scene.stack.dev);
  const collections = await mongo.db.collections();
  const documents = await Promise.all(collections.map((each) => each.find().toArray()));
  await mongo.close();
  expect(documents.flat().length).toBeGreaterThan(0);
  expect(found(JSON.stringify(documents))).toEqual([]);
});
