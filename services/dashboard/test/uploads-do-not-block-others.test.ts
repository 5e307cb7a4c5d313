import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { makeCertificate, packP12 } from '../../../packages/admin/test/certificates.ts';
import { FILES_OF_ROUNDS, PASSPHRASE } from '../../../packages/admin/test/hostile-files.ts';
import {
  type Browser,
  type ConsoleResponse,
  type ConsoleUnderTest,
  inviteBrowser,
  setUpOwner,
  startConsole,
} from './console-under-test.ts';

/** Takes the console's processor for seconds, and is accepted by its limit. */
const SLOW = FILES_OF_ROUNDS['a key of a .p12 file'](900_000);
const TOO_SLOW = FILES_OF_ROUNDS['a key of a .p12 file'](5_000_000);
const VALID = packP12(makeCertificate(), PASSPHRASE);

let started: ConsoleUnderTest;
let victim: Browser;
let victimApp: string;
/** Each with an app of its own account. */
const attackers: { browser: Browser; app: string }[] = [];
beforeAll(async () => {
  started = await startConsole();
  const owner = await setUpOwner(started);
  const createAdmin = async (name: string) => {
    const account = (await owner.post('/api/accounts', { name })).body.id;
    const app = (await owner.post('/api/apps', { account, name })).body.id;
    const invite = { name, role: 'admin', accounts: [account] };
    return { browser: await inviteBrowser(owner, started.url, invite), app };
  };
  ({ browser: victim, app: victimApp } = await createAdmin('victim'));
  for (const name of ['a', 'b', 'c']) attackers.push(await createAdmin(name));
});
afterAll(() => started.stop());

const upload = (browser: Browser, app: string, content: Buffer) =>
  browser.put(`/api/apps/${app}/credentials/apns`, {
    certificate: { name: 'push.p12', base64: content.toString('base64') },
    passphrase: PASSPHRASE,
  });

test('a file with too many rounds of key derivation is refused at once', async () => {
  const [attacker] = attackers;
  const { status, body } = await upload(attacker?.browser ?? victim, attacker?.app ?? '', TOO_SLOW);
  expect(status).toBe(400);
  expect(body.error).toContain('more than 1,000,000 rounds');
});

test('while slow files of others are checked, pages respond and a valid file is saved', async () => {
  const slow = attackers.map(({ browser, app }) => upload(browser, app, SLOW));
  // They have arrived: a second file of the same operator is refused.
  const repeated: ConsoleResponse[] = [];
  for (const { browser, app } of attackers) repeated.push(await upload(browser, app, SLOW));
  expect(repeated.map(({ status }) => status)).toEqual([429, 429, 429]);

  const saved = upload(victim, victimApp, VALID);
  const responseMs: number[] = [];
  for (let n = 0; n < 20; n += 1) {
    const startedAt = performance.now();
    expect((await victim.get(`/api/apps/${victimApp}`)).status).toBe(200);
    responseMs.push(performance.now() - startedAt);
  }
  expect(Math.max(...responseMs)).toBeLessThan(1_500);
  expect(await saved).toMatchObject({ status: 200, body: { kind: 'certificate' } });
  expect((await Promise.all(slow)).map(({ status }) => status)).toEqual([400, 400, 400]);
}, 90_000);
