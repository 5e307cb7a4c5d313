import { createPrivateKey, X509Certificate } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { type KeyPair, makeAuthority, makeServerCertificate } from './certificates.ts';
import { writeAtomically } from './write-atomically.ts';

/** Validity of the authority's certificate: ten years, because clients trust it. */
const AUTHORITY_VALIDITY_DAYS = 3_650;
/** Validity of a server certificate. Apple's systems reject more than 825 days, even from a private authority. */
export const LEAF_VALIDITY_DAYS = 800;
const RENEW_BEFORE_EXPIRY_MS = 30 * 86_400_000;

/**
 * Ensures that a folder holds a certificate authority (`ca.pem`, `ca-key.pem`) and a server certificate that it has
 * signed (`server.pem`, `server-key.pem`). Replaces files that are missing, invalid or close to expiry.
 *
 * @param names host names and IP addresses of the server
 */
export async function ensureServerCertificate(
  folder: string,
  names: readonly string[],
  authorityOptions: Parameters<typeof makeAuthority>[1] = {},
): Promise<{ authority: KeyPair; server: KeyPair }> {
  const authority = await ensureKeyPair(folder, 'ca', {
    isValid: (certificate) => certificate.ca,
    create: () => makeAuthority(AUTHORITY_VALIDITY_DAYS, authorityOptions),
  });
  const issuer = new X509Certificate(authority.certificate).publicKey;
  const server = await ensureKeyPair(folder, 'server', {
    isValid: (certificate) =>
      certificate.verify(issuer) && names.every((name) => isValidFor(certificate, name)),
    create: () => makeServerCertificate(authority, names, LEAF_VALIDITY_DAYS),
  });
  return { authority, server };
}

/** Ensures that a folder holds `NAME.pem` and `NAME-key.pem`, a pair that is valid and far from expiry. */
export async function ensureKeyPair(
  folder: string,
  name: string,
  on: { isValid(certificate: X509Certificate): boolean; create(): Promise<KeyPair> },
): Promise<KeyPair> {
  const certificatePath = join(folder, `${name}.pem`);
  const keyPath = join(folder, `${name}-key.pem`);
  const existing = { certificate: readText(certificatePath), key: readText(keyPath) };
  if (isCurrent(existing) && on.isValid(new X509Certificate(existing.certificate))) return existing;
  const created = await on.create();
  // A server that reads between the two writes finds a mismatched pair and reads again.
  writeAtomically(keyPath, created.key);
  writeAtomically(certificatePath, created.certificate);
  return created;
}

function isCurrent({ certificate, key }: KeyPair): boolean {
  try {
    const parsed = new X509Certificate(certificate);
    const isFarFromExpiry = parsed.validToDate.getTime() - Date.now() > RENEW_BEFORE_EXPIRY_MS;
    return isFarFromExpiry && parsed.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

function isValidFor(certificate: X509Certificate, name: string): boolean {
  const found = isIP(name) === 0 ? certificate.checkHost(name) : certificate.checkIP(name);
  return found !== undefined;
}

function readText(path: string): string {
  return existsSync(path) ? readFileSync(path, 'utf8') : '';
}
