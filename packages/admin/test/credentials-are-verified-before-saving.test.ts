import { generateKeyPairSync } from 'node:crypto';
import { providerSecret } from '@carillon/core/channels';
import { describe, expect, test } from '@jest/globals';
import type { AdminError } from '../src/admin-error.ts';
import { verifyAppleCertificate } from '../src/credential/apple-certificate.ts';
import { verifyAppleToken } from '../src/credential/apple-token.ts';
import { verifyServiceAccount } from '../src/credential/firebase.ts';
import { verifyWebPush } from '../src/credential/web-push.ts';
import type { CredentialFile, VerifiedCredential } from '../src/credentials.ts';
import { makeCertificate, packP12 } from './certificates.ts';

const PKCS8 = { format: 'pem', type: 'pkcs8' } as const;
const IDS = { keyId: 'ABCDE12345', teamId: 'TEAM123456' };

function toFile(content: string | Buffer, name = 'credential.txt'): CredentialFile {
  return { name, content: Buffer.from(content) };
}

/** Returns the error that a credential is rejected with. */
function rejectionOf(verify: () => VerifiedCredential): AdminError {
  try {
    verify();
  } catch (error) {
    return error as AdminError;
  }
  throw new Error('the credential was accepted');
}

function generateEcKey(namedCurve: string): string {
  return generateKeyPairSync('ec', { namedCurve }).privateKey.export(PKCS8).toString();
}

function generateRsaKey(): string {
  return generateKeyPairSync('rsa', { modulusLength: 2_048 }).privateKey.export(PKCS8).toString();
}

describe('a .p8 file', () => {
  test('is accepted with its ids; an absent key id is read from the file name', () => {
    const key = toFile(generateEcKey('P-256'), 'AuthKey_ZZZZZ99999.p8');
    const { secret, about } = verifyAppleToken(key, { teamId: IDS.teamId });
    expect(providerSecret.parse(secret)).toMatchObject({ keyId: 'ZZZZZ99999', kind: 'apns-token' });
    expect(JSON.stringify(about)).not.toContain('PRIVATE');
  });

  test.each([
    ['on another curve', () => generateEcKey('P-384'), IDS, 'P-256', []],
    ['with an RSA key', generateRsaKey, IDS, 'P-256', []],
    ['that contains no key', () => 'hello', IDS, 'BEGIN PRIVATE KEY', []],
    [
      'without a key id',
      () => generateEcKey('P-256'),
      { teamId: IDS.teamId },
      'missing',
      ['keyId'],
    ],
    [
      'without a team id',
      () => generateEcKey('P-256'),
      { keyId: IDS.keyId },
      'missing',
      ['teamId'],
    ],
    [
      'with a key id in lower case',
      () => generateEcKey('P-256'),
      { ...IDS, keyId: 'abcde12345' },
      'A to Z',
      ['keyId'],
    ],
  ])('%s is rejected with the reason', (_, key, ids, reason, fields) => {
    expect(rejectionOf(() => verifyAppleToken(toFile(key()), ids))).toMatchObject({
      code: 'INVALID_CREDENTIAL',
      message: expect.stringContaining(reason),
      fields,
    });
  });
});

describe('a certificate', () => {
  const validCertificate = makeCertificate();
  const validPem = validCertificate.certificate + validCertificate.key;

  test('is accepted as .p12 with its passphrase, and as PEM', () => {
    const p12 = toFile(packP12(validCertificate, 'open sesame'));
    const { secret, about } = verifyAppleCertificate(p12, { passphrase: 'open sesame' });
    expect(providerSecret.parse(secret)).toMatchObject({ kind: 'apns-certificate' });
    expect(about.subject).toContain('org.example.app');
    expect(verifyAppleCertificate(toFile(validPem), {}).secret).toMatchObject({
      key: validCertificate.key,
      certificate: validCertificate.certificate.trim(),
    });
  });

  test.each([
    ['with a wrong passphrase', () => packP12(validCertificate, 'x'), 'passphrase', ['passphrase']],
    ['that is not a .p12 file', () => 'hello', 'neither', []],
    ['without its key', () => validCertificate.certificate, 'no private key', ['passphrase']],
    [
      "with another certificate's key",
      () => validCertificate.certificate + generateRsaKey(),
      "not the certificate's",
      [],
    ],
    ['that has expired', () => makePem({ days: -1 }), 'expired on', []],
    [
      'that Apple did not issue',
      () => makePem({ environments: [] }),
      'not a certificate for APNs',
      [],
    ],
    [
      'for one environment, used for both',
      () => makePem({ environments: ['development'] }),
      'only for development',
      ['environment'],
    ],
  ])('%s is rejected with the reason', (_, content, reason, fields) => {
    expect(rejectionOf(() => verifyAppleCertificate(toFile(content()), {}))).toMatchObject({
      code: 'INVALID_CREDENTIAL',
      message: expect.stringContaining(reason),
      fields,
    });
  });

  function makePem(certificateOptions: Parameters<typeof makeCertificate>[0]): string {
    const { certificate, key } = makeCertificate(certificateOptions);
    return certificate + key;
  }
});

describe("a service account's key file", () => {
  const ACCOUNT = {
    type: 'service_account',
    project_id: 'demo',
    private_key: generateRsaKey(),
    client_email: 'push@demo.iam.gserviceaccount.com',
    token_uri: 'https://oauth2.googleapis.com/token',
  };

  test('is accepted, and only the project and the email address are shown', () => {
    const { secret, about } = verifyServiceAccount(toFile(JSON.stringify(ACCOUNT)));
    expect(providerSecret.parse(secret)).toMatchObject({ kind: 'fcm', projectId: 'demo' });
    expect(Object.keys(about)).toEqual(['projectId', 'clientEmail']);
  });

  test.each([
    ['that is not JSON', 'hello', 'not JSON'],
    ["that is an app's google-services.json", '{"project_info":{}}', 'project_id'],
    ['with an invalid private key', { ...ACCOUNT, private_key: 'x' }, 'not an RSA key'],
    ['with an EC key', { ...ACCOUNT, private_key: generateEcKey('P-256') }, 'not an RSA key'],
    ['with a token_uri that is not https', { ...ACCOUNT, token_uri: 'http://x' }, 'token_uri'],
  ])('%s is rejected with the reason', (_, content, reason) => {
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    expect(rejectionOf(() => verifyServiceAccount(toFile(text)))).toMatchObject({
      code: 'INVALID_CREDENTIAL',
      message: expect.stringContaining(reason),
    });
  });
});

describe('a key pair for Web Push', () => {
  test('is generated, each time another, and is accepted as two keys', () => {
    const created = verifyWebPush({});
    expect(verifyWebPush({}).about.publicKey).not.toBe(created.about.publicKey);
    if (created.secret.kind !== 'web-push') throw new Error(created.secret.kind);
    const privateKey = toFile(created.secret.privateKey);
    const { publicKey } = created.secret;
    expect(verifyWebPush({ publicKey, privateKey }).secret).toEqual(created.secret);
  });

  test.each([
    [
      "with another pair's public key",
      () => ({ publicKey: generatePublicKey(), privateKey: generatePrivateKey() }),
      'does not belong',
      [],
    ],
    ['with an invalid private key', () => ({ privateKey: toFile('AAAA') }), '32 bytes', []],
    [
      'without its private key',
      () => ({ publicKey: generatePublicKey() }),
      'needs its private key',
      ['privateKey'],
    ],
    ['with an invalid contact', () => ({ contact: 'me' }), 'mailto:', ['contact']],
  ])('%s is rejected with the reason', (_, options, reason, fields) => {
    expect(rejectionOf(() => verifyWebPush(options()))).toMatchObject({
      code: 'INVALID_CREDENTIAL',
      message: expect.stringContaining(reason),
      fields,
    });
  });

  function generatePublicKey(): string {
    return verifyWebPush({}).about.publicKey ?? '';
  }

  function generatePrivateKey(): CredentialFile {
    const { secret } = verifyWebPush({});
    return toFile(secret.kind === 'web-push' ? secret.privateKey : '');
  }
});
