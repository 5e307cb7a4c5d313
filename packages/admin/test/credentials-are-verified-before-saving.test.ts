import { generateKeyPairSync } from 'node:crypto';
import { providerSecret } from '@carillon/core/channels';
import { describe, expect, test } from '@jest/globals';
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

const ecKey = (namedCurve: string) =>
  generateKeyPairSync('ec', { namedCurve }).privateKey.export(PKCS8).toString();
const rsaKey = () =>
  generateKeyPairSync('rsa', { modulusLength: 2_048 }).privateKey.export(PKCS8).toString();

/** Credentials, the text of the error that rejects each, and the fields that can resolve it. */
type Rejected = [what: string, verify: () => VerifiedCredential, reason: string, fields: string[]];

function testRejected(rejected: Rejected[]): void {
  test.each(rejected)('%s is rejected with the reason', (_, verify, reason, fields) => {
    const message = expect.stringContaining(reason);
    const error = { code: 'INVALID_CREDENTIAL', message, fields };
    expect(verify).toThrow(expect.objectContaining(error));
  });
}

describe('a .p8 file', () => {
  const p8 = (content: string, ids: Partial<typeof IDS> = IDS) =>
    verifyAppleToken(toFile(content), ids);
  const { keyId, teamId } = IDS;
  const lowerCase = { ...IDS, keyId: 'abcde12345' };

  test('is accepted with its ids; an absent key id is read from the file name', () => {
    const key = toFile(ecKey('P-256'), 'AuthKey_ZZZZZ99999.p8');
    const { secret, about } = verifyAppleToken(key, { teamId });
    expect(providerSecret.parse(secret)).toMatchObject({ keyId: 'ZZZZZ99999', kind: 'apns-token' });
    expect(JSON.stringify(about)).not.toContain('PRIVATE');
  });

  testRejected([
    ['on another curve', () => p8(ecKey('P-384')), 'P-256', []],
    ['with an RSA key', () => p8(rsaKey()), 'P-256', []],
    ['that contains no key', () => p8('hello'), 'BEGIN PRIVATE KEY', []],
    ['without a key id', () => p8(ecKey('P-256'), { teamId }), 'missing', ['keyId']],
    ['without a team id', () => p8(ecKey('P-256'), { keyId }), 'missing', ['teamId']],
    ['with a key id in lower case', () => p8(ecKey('P-256'), lowerCase), 'A to Z', ['keyId']],
  ]);
});

describe('a certificate', () => {
  const valid = makeCertificate();
  const validPem = valid.certificate + valid.key;
  const verify = (content: string | Buffer) => verifyAppleCertificate(toFile(content), {});
  const verifyMade = (options: Parameters<typeof makeCertificate>[0]) => {
    const { certificate, key } = makeCertificate(options);
    return verify(certificate + key);
  };
  const development = ['development' as const];

  test('is accepted as .p12 with its passphrase, and as PEM', () => {
    const p12 = toFile(packP12(valid, 'open sesame'));
    const { secret, about } = verifyAppleCertificate(p12, { passphrase: 'open sesame' });
    expect(providerSecret.parse(secret)).toMatchObject({ kind: 'apns-certificate' });
    expect(about.subject).toContain('org.example.app');
    const { key, certificate } = valid;
    expect(verify(validPem).secret).toMatchObject({ key, certificate: certificate.trim() });
  });

  testRejected([
    ['with a wrong passphrase', () => verify(packP12(valid, 'x')), 'passphrase', ['passphrase']],
    ['that is not a .p12 file', () => verify('hello'), 'neither', []],
    ['without its key', () => verify(valid.certificate), 'no private key', ['passphrase']],
    [
      "with another certificate's key",
      () => verify(valid.certificate + rsaKey()),
      "not the certificate's",
      [],
    ],
    ['that has expired', () => verifyMade({ days: -1 }), 'expired on', []],
    [
      'that Apple did not issue',
      () => verifyMade({ environments: [] }),
      'not a certificate for APNs',
      [],
    ],
    [
      'for one environment, used for both',
      () => verifyMade({ environments: development }),
      'only for development',
      ['environment'],
    ],
  ]);
});

describe("a service account's key file", () => {
  const ACCOUNT = {
    type: 'service_account',
    project_id: 'demo',
    private_key: rsaKey(),
    client_email: 'push@demo.iam.gserviceaccount.com',
    token_uri: 'https://oauth2.googleapis.com/token',
  };
  const verify = (text: string) => verifyServiceAccount(toFile(text));
  const verifyWith = (fields: Partial<typeof ACCOUNT>) =>
    verify(JSON.stringify({ ...ACCOUNT, ...fields }));

  test('is accepted, and only the project and the email address are shown', () => {
    const { secret, about } = verifyWith({});
    expect(providerSecret.parse(secret)).toMatchObject({ kind: 'fcm', projectId: 'demo' });
    expect(Object.keys(about)).toEqual(['projectId', 'clientEmail']);
  });

  testRejected([
    ['that is not JSON', () => verify('hello'), 'not JSON', []],
    [
      "that is an app's google-services.json",
      () => verify('{"project_info":{}}'),
      'project_id',
      [],
    ],
    ['with an invalid private key', () => verifyWith({ private_key: 'x' }), 'not an RSA key', []],
    ['with an EC key', () => verifyWith({ private_key: ecKey('P-256') }), 'not an RSA key', []],
    [
      'with a token_uri that is not https',
      () => verifyWith({ token_uri: 'http://x' }),
      'token_uri',
      [],
    ],
  ]);
});

function rejectedContact(contact: string, text: string): Rejected {
  return [`with the contact ${contact}`, () => verifyWebPush({ contact }), text, ['contact']];
}

describe('a key pair for Web Push', () => {
  const generate = () => {
    const { secret } = verifyWebPush({});
    if (secret.kind !== 'web-push') throw new Error(secret.kind);
    return { publicKey: secret.publicKey, privateKey: toFile(secret.privateKey) };
  };
  const [{ publicKey }, { privateKey }] = [generate(), generate()];

  test('is generated, each time another, and is accepted as two keys', () => {
    const created = verifyWebPush({});
    expect(verifyWebPush({}).about.publicKey).not.toBe(created.about.publicKey);
    if (created.secret.kind !== 'web-push') throw new Error(created.secret.kind);
    const keys = { ...created.secret, privateKey: toFile(created.secret.privateKey) };
    expect(
      verifyWebPush({ publicKey: keys.publicKey, privateKey: keys.privateKey }).secret,
    ).toEqual(created.secret);
  });

  testRejected([
    [
      "with another pair's public key",
      () => verifyWebPush({ publicKey, privateKey }),
      'does not belong',
      [],
    ],
    [
      'with an invalid private key',
      () => verifyWebPush({ privateKey: toFile('AAAA') }),
      '32 bytes',
      [],
    ],
    [
      'without its private key',
      () => verifyWebPush({ publicKey }),
      'needs its private key',
      ['privateKey'],
    ],
  ]);
});

describe('the contact of a key pair', () => {
  testRejected([
    ...[
      ...['me', 'you@mail.net', 'mailto:', 'mailto:mail.net', 'mailto:a@b@mail.net', 'mailto:you@'],
      ...['mailto: you@mail.net', 'mailto:You <you@mail.net>', '<mailto:you@mail.net>'],
      ...[
        'mailto:you@mail.net,me@mail.net',
        'mailto:you@mail.net?subject=a',
        'MAILTO:you@mail.net',
      ],
      ...[
        'http://mail.net',
        'ftp://mail.net',
        'https://',
        'https://mail.net/a b',
        'https:mail.net',
      ],
      ...[
        'https://mail.net/<a>',
        'https:///mail.net',
        'https://bücher.de',
        '',
        ' mailto:you@mail.net',
        'mailto:you@mail.net\n',
      ],
    ].map((contact) => rejectedContact(contact, 'mailto: with one address, or an https: URL')),
    ...[
      ...['mailto:you@localhost', 'mailto:you@LOCALHOST.', 'mailto:you@server', 'https://server/a'],
      ...['mailto:push@carillon.invalid', 'mailto:you@a.test', 'mailto:you@a.b.example'],
      ...['https://a.localhost', 'https://printer.local:631/', 'mailto:you@Example.COM'],
      ...['mailto:you@mail.example.net', 'https://www.example.org/contact', 'https://192.0.2.1'],
      ...['mailto:du@bücher.de', 'mailto:you@mail..net', 'mailto:you@.net', 'mailto:you@mail.net;'],
      ...['https://0x7f.1/', 'https://[2001:db8::1]/', 'mailto:you@192.0.2.1'],
    ].map((contact) => rejectedContact(contact, 'domain name that you own')),
  ]);

  test.each([
    ...[
      'mailto:you@mail.net',
      'mailto:first.last+push@a.b.mail.co.uk',
      'mailto:du@xn--bcher-kva.de',
    ],
    ...[
      'https://mail.net',
      'https://www.mail.net:8443/contact?a=b#c',
      'https://examplecompany.com',
    ],
    ...['mailto:you@test.mail.net', 'https://invalid.net', 'https://host.tailnet.ts.net'],
  ])('takes the contact %s', (contact) => {
    expect(verifyWebPush({ contact })).toMatchObject({ secret: { contact }, about: { contact } });
  });
});
