import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { parseSealingKeys, seal, unseal } from '@carillon/core/sealing';
import { credentialId } from '@carillon/store/credentials';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { type StoreUnderTest, startStore } from '../../../packages/store/test/store-under-test.ts';
import { ROOT } from '../../../test/support/first-run/test-home.ts';
import { until } from '../../../test/support/until.ts';
import { runCarillon } from './run-carillon.ts';

const OLD = `1:${randomBytes(32).toString('hex')}`;
const NEW = `2:${randomBytes(32).toString('hex')}`;
const BOTH = `${NEW},${OLD}`;
const APPS = 1_500;

let bench: StoreUnderTest;
beforeAll(async () => {
  bench = await startStore();
});
beforeEach(() => bench.clear());
afterAll(() => bench?.stop());

function insertSealed(app: string, text: string, keys = OLD): Promise<unknown> {
  const key = { app, channel: 'fcm' as const };
  const sealed = seal(parseSealingKeys(keys), credentialId(key), text);
  return bench.store.credentials.put(key, sealed, {});
}

/** The secrets that open under these keys, by app. @throws when one doesn't */
async function unsealAll(keys: string): Promise<Map<string, string>> {
  const parsed = parseSealingKeys(keys);
  const all = await bench.db.collection('credentials').find().toArray();
  return new Map(
    all.map(({ _id, app, secret }) => [app, unseal(parsed, String(_id), secret)] as const),
  );
}

const countSealedUnder = (key: number): Promise<number> =>
  bench.db.collection('credentials').countDocuments({ 'secret.key': key });

const settings = () => ({ MONGODB_URI: bench.uri, CREDENTIAL_KEYS: BOTH });

async function reseal() {
  const { code, out } = await runCarillon(['--json', 'credential', 'reseal'], { env: settings() });
  return { code, json: JSON.parse(out) as Record<string, unknown> };
}

function startReseal() {
  const env = { PATH: process.env.PATH, ...settings() };
  const args = ['services/cli/src/main.ts', 'credential', 'reseal'];
  return spawn(process.execPath, args, { cwd: ROOT, env, stdio: 'ignore' });
}

test('a run that is killed in the middle is completed by the next', async () => {
  const apps = Array.from({ length: APPS }, (_, n) => `app${n}`);
  await Promise.all(apps.map((app) => insertSealed(app, `secret of ${app}`)));
  const child = startReseal();
  await until(async () => (await countSealedUnder(2)) > 0, { timeoutMs: 60_000, everyMs: 5 });
  child.kill('SIGKILL');
  await once(child, 'exit');
  const left = await countSealedUnder(1);
  expect(left).toBeGreaterThan(0);
  expect((await unsealAll(BOTH)).size).toBe(APPS);
  const json = { key: 2, resealed: left, unchanged: APPS - left, failed: [] };
  expect(await reseal()).toEqual({ code: 0, json });
  expect(await unsealAll(NEW)).toEqual(new Map(apps.map((app) => [app, `secret of ${app}`])));
});

test('two runs at once, during changes of the credentials, restore no older secret', async () => {
  const apps = Array.from({ length: 50 }, (_, n) => `app${n}`);
  await Promise.all(apps.map((app) => insertSealed(app, 'before')));
  const ends = Promise.all([startReseal(), startReseal()].map((child) => once(child, 'exit')));
  let isOver = false;
  void ends.finally(() => {
    isOver = true;
  });
  const last = new Map<string, string>();
  for (let n = 0; !isOver; n += 1) {
    const app = `app${n % apps.length}`;
    last.set(app, `change ${n}`);
    await insertSealed(app, `change ${n}`);
  }
  const found = await unsealAll(BOTH);
  for (const [app, text] of last) expect([app, found.get(app)]).toEqual([app, text]);
  expect(await reseal()).toMatchObject({ code: 0, json: { failed: [] } });
  expect(await unsealAll(NEW)).toEqual(found);
});

test('a credential that no key opens is named, left unchanged, and blocks no other', async () => {
  await insertSealed('good', 'secret');
  await insertSealed('lost', 'secret', `7:${randomBytes(32).toString('hex')}`);
  await insertSealed('replaced', 'secret', `2:${randomBytes(32).toString('hex')}`);
  const failed = ['lost:fcm', 'replaced:fcm'];
  const json = { key: 2, resealed: 1, unchanged: 0, failed };
  expect(await reseal()).toEqual({ code: 1, json });
  expect(await countSealedUnder(7)).toBe(1);
});
