import { createHash, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  ensureKeyPair,
  ensureServerCertificate,
  LEAF_VALIDITY_DAYS,
} from '@carillon/runtime/certificate-files';
import type { KeyPair } from '@carillon/runtime/certificates';
import { writeAtomically } from '@carillon/runtime/write-atomically';
import { makePushCertificate, makeRsaKey, packP12 } from './certificates.ts';

/** The sandbox's Apple credentials, recognizable as test values. */
export const APPLE_CREDENTIALS = {
  keyId: 'SANDBOXKEY',
  teamId: 'SANDBOXTEA',
  bundle: 'com.example.carillon',
  passphrase: 'sandbox',
} as const;
const PROJECT_ID = 'carillon-sandbox';
/** Name and key type of the authority. RSA: node-forge would corrupt an ECDSA signature in the .p12 file. */
const AUTHORITY = { name: 'Carillon sandbox', keyType: 'rsa' } as const;

/** Files that the sandbox keeps between runs, so that saved credentials stay valid. */
export interface SandboxFiles {
  ca: string;
  server: KeyPair;
  /** The .p8 key, PEM. */
  apnsKey: string;
  apnsCertificate: KeyPair;
  p12: Buffer;
  /** RSA key of the service account, PEM. */
  serviceAccountKey: string;
}

/** Service account file in Google's format; its token URI is the sandbox's. */
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
 * Reads the folder's files, and creates those that are missing, close to expiry, or not valid for `host`.
 *
 * @param host the name or address that clients use
 */
export async function ensureFiles(folder: string, host: string): Promise<SandboxFiles> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const names = [...new Set(['localhost', '127.0.0.1', '::1', host])];
  const { authority, server } = await ensureServerCertificate(folder, names, AUTHORITY);
  const issuer = new X509Certificate(authority.certificate).publicKey;
  const apnsCertificate = await ensureKeyPair(folder, 'apns', {
    isValid: (certificate) => certificate.verify(issuer),
    create: () => makePushCertificate(authority, APPLE_CREDENTIALS.bundle, LEAF_VALIDITY_DAYS),
  });
  const p12 = packP12(apnsCertificate, APPLE_CREDENTIALS.passphrase);
  writeAtomically(join(folder, 'apns.p12'), p12);
  return {
    ca: authority.certificate,
    server,
    apnsKey: await ensureText(folder, 'apns.p8', makeApnsKey),
    apnsCertificate,
    p12,
    serviceAccountKey: await ensureText(folder, 'service-account-key.pem', makeRsaKey),
  };
}

/** Writes the service account file with the token URI of this run. */
export function writeServiceAccount(folder: string, key: string, tokenUri: string): ServiceAccount {
  const account: ServiceAccount = {
    type: 'service_account',
    project_id: PROJECT_ID,
    private_key_id: createHash('sha1').update(key).digest('hex'),
    private_key: key,
    client_email: `push@${PROJECT_ID}.iam.gserviceaccount.com`,
    client_id: '100000000000000000001',
    token_uri: tokenUri,
  };
  writeAtomically(join(folder, 'service-account.json'), `${JSON.stringify(account, null, 2)}\n`);
  return account;
}

function makeApnsKey(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}

async function ensureText(
  folder: string,
  name: string,
  create: () => string | Promise<string>,
): Promise<string> {
  const path = join(folder, name);
  const existing = existsSync(path) ? readFileSync(path, 'utf8') : '';
  if (existing !== '') return existing;
  const created = await create();
  writeAtomically(path, created);
  return created;
}
