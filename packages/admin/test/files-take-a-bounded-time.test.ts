import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { verifyAppleCertificate } from '../src/credential/apple-certificate.ts';
import { verifyAppleToken } from '../src/credential/apple-token.ts';
import { verifyServiceAccount } from '../src/credential/firebase.ts';
import { type ProvidedFile, VERIFY_TIMEOUT_MS, verifyFile } from '../src/credential/verify-file.ts';
import type { CredentialFile } from '../src/credentials.ts';
import { makeCertificate, packP12 } from './certificates.ts';
import { dsaKeyOfBytes, FILES_OF_ROUNDS, PASSPHRASE, pemOfRounds } from './hostile-files.ts';

/** Takes a minute, or several. */
const MANY_ROUNDS = 10_000_000;
/** Fewer than too many. */
const ALLOWED_ROUNDS = 999_999;
/** Takes seconds. */
const SLOW_ROUNDS = 900_000;
/** Longer than any check takes, also on a busy machine. */
const LONG_MS = 50_000;
const REFUSED = {
  code: 'INVALID_CREDENTIAL',
  message:
    'file asks for more than 1,000,000 rounds of key derivation. Export it again with fewer.',
};
const ACCOUNT = {
  type: 'service_account',
  project_id: 'demo',
  client_email: 'push@demo.iam.gserviceaccount.com',
  token_uri: 'https://oauth2.googleapis.com/token',
};

const toFile = (content: string | Buffer): CredentialFile => ({
  name: 'file',
  content: Buffer.from(content),
});
const toCertificate = (content: string | Buffer, passphrase = PASSPHRASE): ProvidedFile => ({
  kind: 'apns-certificate',
  file: toFile(content),
  options: { passphrase },
});
const generateRsaKey = (modulusLength: number) =>
  generateKeyPairSync('rsa', { modulusLength }).privateKey;
const toPem = (key: KeyObject) => key.export({ format: 'pem', type: 'pkcs8' }).toString();

const fileOfRounds = FILES_OF_ROUNDS['the MAC of a .p12 file'];
const slow = toCertificate(fileOfRounds(SLOW_ROUNDS));
/** Deadline that the file exceeds on a fast machine too. */
const SHORT_MS = 200;

/** Returns what a function throws; undefined if it does not. */
function errorOf(run: () => unknown): unknown {
  try {
    return void run();
  } catch (error) {
    return error;
  }
}

describe('rounds of key derivation', () => {
  test.each(Object.entries(FILES_OF_ROUNDS))(
    '%s: too many are refused before they are run',
    (_, make) => {
      const file = toFile(make(MANY_ROUNDS));
      expect(errorOf(() => verifyAppleCertificate(file, { passphrase: PASSPHRASE }))).toMatchObject(
        REFUSED,
      );
    },
  );

  test.each(Object.entries(FILES_OF_ROUNDS))(
    '%s: few are run, and the file is refused for its content',
    (_, make) => {
      const file = toFile(make(100));
      const { message } = errorOf(() =>
        verifyAppleCertificate(file, { passphrase: PASSPHRASE }),
      ) as Error;
      expect(message).toMatch(/^The passphrase does not decrypt file|is neither|no private key/);
    },
  );

  test('an encrypted key in PEM: too many are refused before they are run', () => {
    const file = toFile(makeCertificate().certificate + pemOfRounds(MANY_ROUNDS));
    expect(errorOf(() => verifyAppleCertificate(file, { passphrase: PASSPHRASE }))).toMatchObject(
      REFUSED,
    );
  });
});

describe('files of operators are accepted', () => {
  const pair = makeCertificate();

  test('a .p12 file with many rounds', async () => {
    const p12 = packP12(pair, PASSPHRASE, 20_000);
    expect(await verifyFile(toCertificate(p12), LONG_MS)).toMatchObject({
      secret: { kind: 'apns-certificate' },
    });
  });

  test.each([
    ['PBES2', { type: 'pkcs8', cipher: 'aes-256-cbc' }, 'pass'],
    ['PBES2 and a passphrase beyond ASCII', { type: 'pkcs8', cipher: 'aes-128-cbc' }, 'pässword €'],
    ["OpenSSL's own format", { type: 'pkcs1', cipher: 'aes-256-cbc' }, 'pass'],
  ] as const)('PEM with a key that is encrypted with %s', async (_, form, passphrase) => {
    const key = createPrivateKey(pair.key);
    const encrypted = key.export({ format: 'pem', passphrase, ...form }).toString();
    const verify = (word: string) =>
      verifyFile(toCertificate(pair.certificate + encrypted, word), LONG_MS);
    expect(await verify(passphrase)).toMatchObject({ secret: { key: pair.key } });
    await expect(verify('x')).rejects.toThrow('that this passphrase decrypts');
  });

  test('a PEM key with as many rounds as are allowed, within the time', async () => {
    const ofRounds = (rounds: number) => toCertificate(pair.certificate + pemOfRounds(rounds));
    const startedAt = performance.now();
    await expect(verifyFile(ofRounds(1), LONG_MS)).rejects.toThrow();
    const lagMs = performance.now() - startedAt;
    const checked = verifyFile(ofRounds(ALLOWED_ROUNDS), VERIFY_TIMEOUT_MS + 3 * lagMs);
    await expect(checked).rejects.toThrow('that this passphrase decrypts');
  });

  test('keys as Apple and Google issue them, and an RSA key of 4,096 bits', async () => {
    const p8 = toPem(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey);
    const ids = { keyId: 'ABCDE12345', teamId: 'TEAM123456' };
    const token = { kind: 'apns-token', file: toFile(p8), ids } as const;
    // Within the limit that it has by default.
    expect(await verifyFile(token)).toMatchObject({ secret: { key: p8 } });
    const account = { ...ACCOUNT, private_key: toPem(generateRsaKey(4_096)) };
    const file = { kind: 'fcm', file: toFile(JSON.stringify(account)) } as const;
    expect(await verifyFile(file, LONG_MS)).toMatchObject({ about: { projectId: 'demo' } });
  });
});

describe('long keys', () => {
  const tooLong = { code: 'INVALID_CREDENTIAL', message: expect.stringContaining('4,096 bits') };
  const dsaKey = dsaKeyOfBytes(3_000);

  test('are refused before their public half is computed', () => {
    const account = JSON.stringify({ ...ACCOUNT, private_key: dsaKey });
    const pem = makeCertificate().certificate + dsaKey;
    expect(errorOf(() => verifyAppleToken(toFile(dsaKey), {}))).toMatchObject(tooLong);
    expect(errorOf(() => verifyServiceAccount(toFile(account)))).toMatchObject(tooLong);
    expect(errorOf(() => verifyAppleCertificate(toFile(pem), {}))).toMatchObject(tooLong);
  });

  test('for RSA are refused, as a delivery worker would sign with them', () => {
    const account = JSON.stringify({ ...ACCOUNT, private_key: toPem(generateRsaKey(4_608)) });
    expect(errorOf(() => verifyServiceAccount(toFile(account)))).toMatchObject(tooLong);
  });

  test('files that repeat a line are refused before a slow one is read', async () => {
    let isPending = true;
    const reading = verifyFile(slow, LONG_MS).catch(() => (isPending = false));
    const lines = ['-----BEGIN CERTIFICATE-----', '-----BEGIN PRIVATE KEY-----', '-----BEGIN A '];
    const repeated = lines.map((line) => toCertificate(`${line}\n`.repeat(75_000 / line.length)));
    const refused = repeated.map((file) =>
      verifyFile(file, LONG_MS).catch(({ message }) => message),
    );
    const none = expect.stringContaining('contains no certificate');
    expect(await Promise.all(refused)).toEqual([none, none, none]);
    expect(isPending).toBe(true);
    await reading;
  });
});

describe('a file in its own thread', () => {
  test('is refused at the deadline', async () => {
    expect(VERIFY_TIMEOUT_MS).toBe(10_000);
    await expect(verifyFile(slow, SHORT_MS)).rejects.toMatchObject({
      code: 'INVALID_CREDENTIAL',
      message: expect.stringContaining('takes too long to read'),
    });
  });

  test('leaves the thread of the process free', async () => {
    let turns = 0;
    const verified = expect(verifyFile(slow, SHORT_MS)).rejects.toThrow('takes too long');
    let isOver = false;
    void verified.then(() => {
      isOver = true;
    });
    while (!isOver) {
      await new Promise(setImmediate);
      turns += 1;
    }
    await verified;
    expect(turns).toBeGreaterThan(20);
  });

  test('is refused with the reason and the fields that can resolve it', async () => {
    const p12 = packP12(makeCertificate(), PASSPHRASE);
    await expect(verifyFile(toCertificate(p12, 'x'), LONG_MS)).rejects.toMatchObject({
      code: 'INVALID_CREDENTIAL',
      message: 'The passphrase does not decrypt file.',
      fields: ['passphrase'],
    });
  });
});
