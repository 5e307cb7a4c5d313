import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  type Browser,
  type ConsoleUnderTest,
  setUpOwner,
  startConsole,
} from './console-under-test.ts';

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
const KEY = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();

let started: ConsoleUnderTest;
let owner: Browser;
let app: string;
beforeAll(async () => {
  started = await startConsole();
  owner = await setUpOwner(started);
  const account = (await owner.post('/api/accounts', { name: 'one' })).body.id;
  app = (await owner.post('/api/apps', { account, name: 'app' })).body.id;
});
afterAll(() => started.stop());

/** Uploads a key file that names this token server. */
function upload(tokenUri: string) {
  const account = {
    type: 'service_account',
    project_id: 'demo',
    private_key: KEY,
    client_email: 'push@demo.iam.gserviceaccount.com',
    token_uri: tokenUri,
  };
  const base64 = Buffer.from(JSON.stringify(account)).toString('base64');
  return owner.put(`/api/apps/${app}/credentials/fcm`, {
    serviceAccount: { name: 'key.json', base64 },
  });
}

const listChannels = async () =>
  (await owner.get(`/api/apps/${app}/credentials`)).body.items.map(
    ({ channel }: { channel: string }) => channel,
  );

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
    const { status, body } = await upload(uri);
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
    expect((await upload(uri)).status).toBe(200);
    expect(await listChannels()).toContain('fcm');
    await owner.delete(`/api/apps/${app}/credentials/fcm`);
  },
);
