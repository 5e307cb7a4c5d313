import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { makeCertificate, packP12 } from '../../../packages/admin/test/certificates.ts';
import { FILES_OF_ROUNDS, PASSPHRASE } from '../../../packages/admin/test/hostile-files.ts';
import {
  type Browser,
  type ConsoleUnderTest,
  inviteBrowser,
  setUpOwner,
  startConsole,
} from './console-under-test.ts';

/** Takes the console's processor for seconds, and is accepted by its limit. */
const SLOW = FILES_OF_ROUNDS['a key of a .p12 file'](900_000);
const TOO_SLOW = FILES_OF_ROUNDS['a key of a .p12 file'](5_000_000);
const VALID = packP12(makeCertificate(), PASSPHRASE);
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
const KEY = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();

type Admin = { browser: Browser; app: string };
let started: ConsoleUnderTest;
/** Each with an app of its own account. */
let victim: Admin;
let attackers: Admin[];
beforeAll(async () => {
  started = await startConsole();
  const owner = await setUpOwner(started);
  const createAdmin = async (name: string): Promise<Admin> => {
    const account = (await owner.post('/api/accounts', { name })).body.id;
    const app = (await owner.post('/api/apps', { account, name })).body.id;
    const invite = { name, role: 'admin', accounts: [account] };
    return { browser: await inviteBrowser(owner, started.url, invite), app };
  };
  victim = await createAdmin('victim');
  attackers = await Promise.all(['a', 'b', 'c'].map(createAdmin));
});
afterAll(() => started.stop());

const upload = ({ browser, app }: Admin, content: Buffer) =>
  browser.put(`/api/apps/${app}/credentials/apns`, {
    certificate: { name: 'push.p12', base64: content.toString('base64') },
    passphrase: PASSPHRASE,
  });

/** Uploads a key file for FCM that names this token server. */
function uploadNaming(tokenUri: string) {
  const account = {
    ...{ type: 'service_account', project_id: 'demo', private_key: KEY },
    ...{ client_email: 'push@demo.iam.gserviceaccount.com', token_uri: tokenUri },
  };
  const base64 = Buffer.from(JSON.stringify(account)).toString('base64');
  return victim.browser.put(`/api/apps/${victim.app}/credentials/fcm`, {
    serviceAccount: { name: 'key.json', base64 },
  });
}

const listChannels = async () =>
  (await victim.browser.get(`/api/apps/${victim.app}/credentials`)).body.items.map(
    ({ channel }: { channel: string }) => channel,
  );

test('a file with too many rounds of key derivation is refused at once', async () => {
  const { status, body } = await upload(victim, TOO_SLOW);
  expect(status).toBe(400);
  expect(body.error).toContain('more than 1,000,000 rounds');
});

test('while slow files of others are checked, pages respond and a valid file is saved', async () => {
  let checked = 0;
  const uploads = attackers.map((attacker) =>
    [upload(attacker, SLOW), upload(attacker, SLOW)].map(async (response) => {
      const { status } = await response;
      if (status === 400) checked += 1;
      return status;
    }),
  );
  // They have arrived: of two files of an operator at once, one is refused.
  expect(await Promise.all(uploads.map((two) => Promise.race(two)))).toEqual([429, 429, 429]);
  const saved = upload(victim, VALID);
  for (let n = 0; n < 5; n += 1)
    expect((await victim.browser.get(`/api/apps/${victim.app}`)).status).toBe(200);
  expect(checked).toBe(0);
  expect(await saved).toMatchObject({ status: 200, body: { kind: 'certificate' } });
  expect((await Promise.all(uploads.flat())).toSorted()).toEqual([400, 400, 400, 429, 429, 429]);
});

test.each([
  'https://127.0.0.1:8443/token',
  'https://10.0.0.1/token',
  'https://[::1]/token',
  'https://metadata.google.internal/token',
  'https://attacker.example/token',
  'https://oauth2.googleapis.com:8443/token',
  'https://oauth2.googleapis.com.attacker.example/token',
  'https://oauth2.googleapis.com@attacker.example/token',
  'https://user:secret@oauth2.googleapis.com/token',
])(
  'a service account with the token server %s is refused, each with the same text',
  async (uri) => {
    const { status, body } = await uploadNaming(uri);
    expect({ status, ...body }).toMatchObject({
      status: 400,
      code: 'INVALID_PARAM',
      error:
        'The token_uri must be the one that Google writes: https://oauth2.googleapis.com/token.',
    });
    expect(await listChannels()).not.toContain('fcm');
  },
);

test.each(['https://oauth2.googleapis.com/token', 'https://accounts.google.com/o/oauth2/token'])(
  "a service account with Google's token server %s is saved",
  async (uri) => {
    expect((await uploadNaming(uri)).status).toBe(200);
    expect(await listChannels()).toContain('fcm');
    await victim.browser.delete(`/api/apps/${victim.app}/credentials/fcm`);
  },
);
