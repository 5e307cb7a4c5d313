import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { parseSealingKeys, seal, unseal } from '../../packages/core/src/sealing.ts';
import { credentialId } from '../../packages/store/src/credentials.ts';
import { ONLY_API } from '../support/api/only-api.ts';
import { runCarillon } from '../support/carillon.ts';
import { ROOT } from '../support/first-run/test-home.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { openStore, type TestStore } from '../support/open-store.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const OLD = `1:${randomBytes(32).toString('hex')}`;
const NEW = `2:${randomBytes(32).toString('hex')}`;
const BOTH = { CREDENTIAL_KEYS: `${NEW},${OLD}` };
const APPS = 1_500;

let stack: Stack;
let store: TestStore;
let mongo: TestMongo;
beforeAll(async () => {
  stack = await startStack(ONLY_API);
  store = await openStore({ uri: stack.dev.mongodb, appName: 'test' });
  mongo = await openMongo(stack.dev);
});
beforeEach(async () => {
  await mongo.db.collection('credentials').deleteMany({});
});
afterAll(async () => {
  await mongo?.close();
  await store?.close();
  await stack?.stop();
});

const credentialKeyFor = (app: string) => ({ app, channel: 'fcm' as const });

function insertSealed(app: string, text: string, keys = OLD): Promise<unknown> {
  const credentialKey = credentialKeyFor(app);
  return store.credentials.put(
    credentialKey,
    seal(parseSealingKeys(keys), credentialId(credentialKey), text),
    {},
  );
}

/** The secrets that open under these keys, by app. @throws when one doesn't */
async function unsealAll(keys: string): Promise<Map<string, string>> {
  const parsed = parseSealingKeys(keys);
  const all = await mongo.db.collection('credentials').find().toArray();
  return new Map(
    all.map(({ _id, app, secret }) => [app, unseal(parsed, String(_id), secret)] as const),
  );
}

function countSealedUnder(key: number): Promise<number> {
  return mongo.db.collection('credentials').countDocuments({ 'secret.key': key });
}

async function reseal(env: Record<string, string> = BOTH) {
  const { code, stdout } = await runCarillon(stack.home, ['--json', 'credential', 'reseal'], env);
  return { code, json: JSON.parse(stdout) as Record<string, unknown> };
}

function startReseal(): ChildProcess {
  const args = ['services/cli/src/main.ts', 'credential', 'reseal'];
  const env = { PATH: process.env.PATH, CARILLON_HOME: stack.home, ...BOTH };
  return spawn(process.execPath, args, { cwd: ROOT, env, stdio: 'ignore' });
}

test('a run that is killed in the middle is completed by the next', async () => {
  const apps = Array.from({ length: APPS }, (_, n) => `app${n}`);
  await Promise.all(apps.map((app) => insertSealed(app, `secret of ${app}`)));
  const child = startReseal();
  await until(async () => (await countSealedUnder(2)) > 0, { everyMs: 5 });
  child.kill('SIGKILL');
  await once(child, 'exit');
  const left = await countSealedUnder(1);
  expect(left).toBeGreaterThan(0);
  expect((await unsealAll(BOTH.CREDENTIAL_KEYS)).size).toBe(APPS);
  const { code, json } = await reseal();
  expect({ code, json }).toEqual({
    code: 0,
    json: { key: 2, resealed: left, unchanged: APPS - left, failed: [] },
  });
  expect(await unsealAll(NEW)).toEqual(new Map(apps.map((app) => [app, `secret of ${app}`])));
});

test('two runs at once, during changes of the credentials, restore no older secret', async () => {
  const apps = Array.from({ length: 50 }, (_, n) => `app${n}`);
  await Promise.all(apps.map((app) => insertSealed(app, 'before')));
  const children = [startReseal(), startReseal()];
  const ends = Promise.all(children.map((child) => once(child, 'exit')));
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
  const found = await unsealAll(BOTH.CREDENTIAL_KEYS);
  for (const [app, text] of last) expect([app, found.get(app)]).toEqual([app, text]);
  expect(await reseal()).toMatchObject({ code: 0, json: { failed: [] } });
  expect(await unsealAll(NEW)).toEqual(found);
});

test('a credential that no key opens is named, left unchanged, and blocks no other', async () => {
  await insertSealed('good', 'secret');
  await insertSealed('lost', 'secret', `7:${randomBytes(32).toString('hex')}`);
  await insertSealed('replaced', 'secret', `2:${randomBytes(32).toString('hex')}`);
  const { code, json } = await reseal();
  expect({ code, json }).toEqual({
    code: 1,
    json: { key: 2, resealed: 1, unchanged: 0, failed: ['lost:fcm', 'replaced:fcm'] },
  });
  expect(await countSealedUnder(7)).toBe(1);
});
