import { createHash, createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import {
  type KeyPair,
  makeAuthority,
  makePushCertificate,
  makeRsaKeys,
  makeServer,
  packP12,
} from './certificates.ts';

const AUTHORITY_DAYS = 3_650;
const LEAF_DAYS = 800;
const RENEWED_BEFORE_MS = 30 * 86_400_000;

/** The sandbox's names; they say at a glance that they are nobody's. */
export const APPLE = {
  keyId: 'SANDBOXKEY',
  teamId: 'SANDBOXTEA',
  bundle: 'com.example.carillon',
  passphrase: 'sandbox',
} as const;
const PROJECT = 'carillon-sandbox';

/** What the sandbox keeps between two runs, so that credentials once saved stay good. */
export interface Files {
  ca: string;
  server: KeyPair;
  /** The .p8 key, PEM. */
  apnsKey: string;
  apnsCertificate: KeyPair;
  p12: Buffer;
  /** RSA key of the service account, PEM. */
  serviceAccountKey: string;
}

/** A service account's file as Google gives it, for tokens of the sandbox's own. */
export interface ServiceAccount {
  type: 'service_account';
  project_id: string;
  private_key_id: string;
  private_key: string;
  client_email: string;
  client_id: string;
  token_uri: string;
}

/**
 * Reads the folder's files and makes what is missing, near its end, or not for `host`.
 *
 * @param host the name or address by which clients reach the sandbox
 */
export async function ensureFiles(folder: string, host: string): Promise<Files> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const names = [...new Set(['localhost', '127.0.0.1', '::1', host])];
  const authority = await ensurePair(folder, 'ca', {
    isGood: (certificate) => certificate.ca,
    make: () => makeAuthority(AUTHORITY_DAYS),
  });
  const issuer = new X509Certificate(authority.certificate).publicKey;
  const server = await ensurePair(folder, 'server', {
    isGood: (certificate) => certificate.verify(issuer) && names.every(isNamedIn(certificate)),
    make: () => makeServer(authority, names, LEAF_DAYS),
  });
  const apnsCertificate = await ensurePair(folder, 'apns', {
    isGood: (certificate) => certificate.verify(issuer),
    make: () => makePushCertificate(authority, APPLE.bundle, LEAF_DAYS),
  });
  const p12 = packP12(apnsCertificate, APPLE.passphrase);
  write(folder, 'apns.p12', p12);
  return {
    ca: authority.certificate,
    server,
    apnsKey: await ensureText(folder, 'apns.p8', makeApnsKey),
    apnsCertificate,
    p12,
    serviceAccountKey: await ensureText(
      folder,
      'service-account-key.pem',
      async () => (await makeRsaKeys()).privateKey,
    ),
  };
}

/** Writes the service account's file for the address that tokens are got at in this run. */
export function writeServiceAccount(folder: string, key: string, tokenUri: string): ServiceAccount {
  const account: ServiceAccount = {
    type: 'service_account',
    project_id: PROJECT,
    private_key_id: createHash('sha1').update(key).digest('hex'),
    private_key: key,
    client_email: `push@${PROJECT}.iam.gserviceaccount.com`,
    client_id: '100000000000000000001',
    token_uri: tokenUri,
  };
  write(folder, 'service-account.json', `${JSON.stringify(account, null, 2)}\n`);
  return account;
}

function makeApnsKey(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}

function isNamedIn(certificate: X509Certificate): (name: string) => boolean {
  return (name) =>
    (isIP(name) === 0 ? certificate.checkHost(name) : certificate.checkIP(name)) !== undefined;
}

async function ensurePair(
  folder: string,
  name: string,
  { isGood, make }: { isGood(certificate: X509Certificate): boolean; make(): Promise<KeyPair> },
): Promise<KeyPair> {
  const present = {
    certificate: read(folder, `${name}.pem`),
    key: read(folder, `${name}-key.pem`),
  };
  if (isLasting(present) && isGood(new X509Certificate(present.certificate))) return present;
  const made = await make();
  write(folder, `${name}-key.pem`, made.key);
  write(folder, `${name}.pem`, made.certificate);
  return made;
}

function isLasting({ certificate, key }: KeyPair): boolean {
  try {
    const read = new X509Certificate(certificate);
    const lasts = read.validToDate.getTime() - Date.now() > RENEWED_BEFORE_MS;
    return lasts && read.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

async function ensureText(
  folder: string,
  name: string,
  make: () => string | Promise<string>,
): Promise<string> {
  const present = read(folder, name);
  if (present !== '') return present;
  const made = await make();
  write(folder, name, made);
  return made;
}

function read(folder: string, name: string): string {
  const path = join(folder, name);
  return existsSync(path) ? readFileSync(path, 'utf8') : '';
}

function write(folder: string, name: string, content: string | Buffer): void {
  const half = join(folder, `${name}.half`);
  writeFileSync(half, content, { mode: 0o600 });
  renameSync(half, join(folder, name));
}
