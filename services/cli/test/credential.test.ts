import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { providerSecret } from '@carillon/core/credentials';
import { describe, expect, test } from '@jest/globals';
import { temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { checkAppleCertificate } from '../src/credential/apple-certificate.ts';
import { checkAppleToken } from '../src/credential/apple-token.ts';
import { checkServiceAccount } from '../src/credential/firebase.ts';
import { checkWebPush } from '../src/credential/web-push.ts';
import { makeCertificate, packP12 } from './certificates.ts';

const PKCS8 = { format: 'pem', type: 'pkcs8' } as const;
const folder = temporaryFolder();
const IDS = { keyId: 'ABCDE12345', teamId: 'TEAM123456' };

function fileOf(content: string | Buffer, name = `${randomBytes(4).toString('hex')}.txt`): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

function ecKey(namedCurve: string): string {
  return generateKeyPairSync('ec', { namedCurve }).privateKey.export(PKCS8).toString();
}

function rsaKey(): string {
  return generateKeyPairSync('rsa', { modulusLength: 2_048 }).privateKey.export(PKCS8).toString();
}

describe('a .p8 file', () => {
  test('is taken with its ids, the key id from its name if need be', () => {
    const key = fileOf(ecKey('P-256'), 'AuthKey_ZZZZZ99999.p8');
    const { secret, about } = checkAppleToken({ key, teamId: IDS.teamId });
    expect(providerSecret.parse(secret)).toMatchObject({ keyId: 'ZZZZZ99999', kind: 'apns-token' });
    expect(JSON.stringify(about)).not.toContain('PRIVATE');
  });

  test.each([
    ['of another curve', () => fileOf(ecKey('P-384')), IDS, 'P-256'],
    ['of RSA', () => fileOf(rsaKey()), IDS, 'P-256'],
    ['that is no key', () => fileOf('hello'), IDS, 'BEGIN PRIVATE KEY'],
    ['that is not there', () => join(folder, 'nowhere.p8'), IDS, "can't be read"],
    ['without a key id', () => fileOf(ecKey('P-256')), { teamId: IDS.teamId }, '--key-id'],
    ['without a team id', () => fileOf(ecKey('P-256')), { keyId: IDS.keyId }, '--team-id'],
    [
      'with an id in small letters',
      () => fileOf(ecKey('P-256')),
      { ...IDS, keyId: 'abcde12345' },
      '--key-id',
    ],
  ])('%s is refused with the reason', (_, key, ids, reason) => {
    expect(() => checkAppleToken({ key: key(), ...ids })).toThrow(reason);
  });
});

describe('a certificate', () => {
  const good = makeCertificate();

  test('is taken as .p12 with its passphrase, and as PEM', () => {
    const certificate = fileOf(packP12(good, 'open sesame'));
    const passphraseFile = fileOf('open sesame\n');
    const { secret, about } = checkAppleCertificate({ certificate, passphraseFile });
    expect(providerSecret.parse(secret)).toMatchObject({ kind: 'apns-certificate' });
    expect(about.subject).toContain('org.example.app');
    checkAppleCertificate({ certificate: fileOf(good.certificate + good.key) });
  });

  test.each([
    ['with a wrong passphrase', () => ({ certificate: fileOf(packP12(good, 'x')) }), 'passphrase'],
    ['that is no .p12', () => ({ certificate: fileOf('hello') }), 'neither'],
    ['without its key', () => ({ certificate: fileOf(good.certificate) }), 'no private key'],
    [
      'with the key of another',
      () => ({ certificate: fileOf(good.certificate + rsaKey()) }),
      "not the certificate's",
    ],
    ['that has ended', () => pemOf({ days: -1 }), 'ended on'],
    ['that is none of Apple', () => pemOf({ environments: [] }), 'not one for APNs'],
    [
      'of one environment for both',
      () => pemOf({ environments: ['development'] }),
      '--environment',
    ],
  ])('%s is refused with the reason', (_, options, reason) => {
    expect(() => checkAppleCertificate(options())).toThrow(reason);
  });

  function pemOf(wanted: Parameters<typeof makeCertificate>[0]): { certificate: string } {
    const made = makeCertificate(wanted);
    return { certificate: fileOf(made.certificate + made.key) };
  }
});

describe("a service account's file", () => {
  const ACCOUNT = {
    type: 'service_account',
    project_id: 'demo',
    private_key: rsaKey(),
    client_email: 'push@demo.iam.gserviceaccount.com',
    token_uri: 'https://oauth2.googleapis.com/token',
  };

  test('is taken, and shows only whose it is', () => {
    const { secret, about } = checkServiceAccount(fileOf(JSON.stringify(ACCOUNT)));
    expect(providerSecret.parse(secret)).toMatchObject({ kind: 'fcm', projectId: 'demo' });
    expect(Object.keys(about)).toEqual(['projectId', 'clientEmail']);
  });

  test.each([
    ['that is not JSON', 'hello', 'not JSON'],
    ["of an app's own google-services.json", '{"project_info":{}}', 'project_id'],
    ['with a key that is none', { ...ACCOUNT, private_key: 'x' }, 'no RSA key'],
    ['with an EC key', { ...ACCOUNT, private_key: ecKey('P-256') }, 'no RSA key'],
    ['with a token_uri that is not https', { ...ACCOUNT, token_uri: 'http://x' }, 'token_uri'],
  ])('%s is refused with the reason', (_, content, reason) => {
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    expect(() => checkServiceAccount(fileOf(text))).toThrow(reason);
  });
});

describe('a key pair for browsers', () => {
  test('is made, each another, and given in its two halves taken again', () => {
    const made = checkWebPush({});
    expect(checkWebPush({}).about.publicKey).not.toBe(made.about.publicKey);
    if (made.secret.kind !== 'web-push') throw new Error(made.secret.kind);
    const privateKeyFile = fileOf(made.secret.privateKey);
    const { publicKey } = made.secret;
    expect(checkWebPush({ publicKey, privateKeyFile }).secret).toEqual(made.secret);
  });

  test.each([
    [
      'with a public key of another',
      () => ({ publicKey: other(), privateKeyFile: half() }),
      'not the one',
    ],
    ['with a private key that is none', () => ({ privateKeyFile: fileOf('AAAA') }), '32 bytes'],
    ['with half of it', () => ({ publicKey: other() }), '--private-key-file'],
    ['with a contact nobody can reach', () => ({ contact: 'me' }), '--contact'],
  ])('%s is refused with the reason', (_, options, reason) => {
    expect(() => checkWebPush(options())).toThrow(reason);
  });

  function other(): string {
    return checkWebPush({}).about.publicKey ?? '';
  }

  function half(): string {
    const { secret } = checkWebPush({});
    return fileOf(secret.kind === 'web-push' ? secret.privateKey : '');
  }
});
