import 'reflect-metadata';
import { createPrivateKey, randomBytes, webcrypto } from 'node:crypto';
import { isIP } from 'node:net';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  Extension,
  type JsonName,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';

const KEY_ALGORITHMS = {
  ec: { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' },
  rsa: {
    name: 'RSASSA-PKCS1-v1_5',
    modulusLength: 2_048,
    publicExponent: Uint8Array.of(1, 0, 1),
    hash: 'SHA-256',
  },
} as const;
type KeyType = keyof typeof KEY_ALGORITHMS;

const DER_NULL = Uint8Array.of(5, 0);
const DAY_MS = 86_400_000;
/** Time by which the validity starts in the past, for clients with a slow clock. */
const BACKDATED_MS = DAY_MS;

/** A certificate and its private key, both PEM. */
export interface KeyPair {
  certificate: string;
  key: string;
}

interface LeafSpec {
  subject: string | JsonName;
  days: number;
  keyType: KeyType;
  extensions: readonly Extension[];
}

/**
 * Creates a certificate authority that may sign only leaf certificates.
 *
 * @param name start of its name; a random suffix follows, because clients that trust several
 *   authorities distinguish them by name
 */
export async function makeAuthority(
  days: number,
  { name = 'Carillon', keyType = 'ec' }: { name?: string; keyType?: KeyType } = {},
): Promise<KeyPair> {
  const keys = await generateKeys(keyType);
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: `CN=${name} ${randomBytes(4).toString('hex')}`,
    serialNumber: createSerialNumber(),
    ...validityPeriod(days),
    keys,
    signingAlgorithm: KEY_ALGORITHMS[keyType],
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return toPem(certificate, keys);
}

/**
 * Creates a server certificate, signed by an authority.
 *
 * @param names host names and IP addresses of the server
 */
export function makeServerCertificate(
  authority: KeyPair,
  names: readonly string[],
  days: number,
): Promise<KeyPair> {
  const alternativeNames = names.map((value) => ({
    type: isIP(value) === 0 ? ('dns' as const) : ('ip' as const),
    value,
  }));
  return createLeafCertificate(authority, {
    subject: 'CN=Carillon',
    days,
    keyType: 'ec',
    extensions: [
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
      new SubjectAlternativeNameExtension(alternativeNames),
    ],
  });
}

/**
 * Creates a client certificate with an RSA key, signed by an authority.
 *
 * @param markerOids object identifiers of extensions with the value NULL
 */
export function makeClientCertificate(
  authority: KeyPair,
  subject: JsonName,
  markerOids: readonly string[],
  days: number,
): Promise<KeyPair> {
  return createLeafCertificate(authority, {
    subject,
    days,
    keyType: 'rsa',
    extensions: [
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.clientAuth]),
      ...markerOids.map((oid) => new Extension(oid, false, DER_NULL)),
    ],
  });
}

async function createLeafCertificate(
  authority: KeyPair,
  { subject, days, keyType, extensions }: LeafSpec,
): Promise<KeyPair> {
  const keys = await generateKeys(keyType);
  const issuer = new X509Certificate(authority.certificate);
  const certificate = await X509CertificateGenerator.create({
    subject,
    issuer: issuer.subjectName,
    serialNumber: createSerialNumber(),
    ...validityPeriod(days),
    publicKey: keys.publicKey,
    ...(await importSigner(authority.key)),
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      ...extensions,
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
      await AuthorityKeyIdentifierExtension.create(issuer.publicKey),
    ],
  });
  return toPem(certificate, keys);
}

function generateKeys(keyType: KeyType): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(KEY_ALGORITHMS[keyType], true, ['sign', 'verify']);
}

/** Imports an authority's key for signing. */
async function importSigner(pem: string) {
  const key = createPrivateKey(pem);
  const algorithm = KEY_ALGORITHMS[key.asymmetricKeyType === 'rsa' ? 'rsa' : 'ec'];
  const der = key.export({ type: 'pkcs8', format: 'der' });
  const signingKey = await webcrypto.subtle.importKey('pkcs8', der, algorithm, false, ['sign']);
  return { signingKey, signingAlgorithm: algorithm };
}

async function toPem(
  certificate: X509Certificate,
  { privateKey }: webcrypto.CryptoKeyPair,
): Promise<KeyPair> {
  const der = await webcrypto.subtle.exportKey('pkcs8', privateKey);
  return {
    certificate: `${certificate.toString('pem')}\n`,
    key: `${PemConverter.encode(der, 'PRIVATE KEY')}\n`,
  };
}

function validityPeriod(days: number): { notBefore: Date; notAfter: Date } {
  const now = Date.now();
  return { notBefore: new Date(now - BACKDATED_MS), notAfter: new Date(now + days * DAY_MS) };
}

/** Creates a positive serial number of 16 bytes (RFC 5280, 4.1.2.2). */
function createSerialNumber(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes.toString('hex');
}
