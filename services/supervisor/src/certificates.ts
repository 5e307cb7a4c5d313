import 'reflect-metadata';
import { randomBytes, type webcrypto } from 'node:crypto';
import { isIP } from 'node:net';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';

const CURVE = { name: 'ECDSA', namedCurve: 'P-256' } as const;
const SIGNATURE = { name: 'ECDSA', hash: 'SHA-256' } as const;
const DAY_MS = 86_400_000;
/** A device whose clock is a little behind must not find the certificate in its future. */
const BACKDATED_MS = DAY_MS;

/** A certificate and its private key, both PEM. */
export interface KeyPair {
  certificate: string;
  key: string;
}

/** Makes a certificate authority whose key signs only servers' certificates. */
export async function makeAuthority(days: number): Promise<KeyPair> {
  const keys = await newKeys();
  const certificate = await X509CertificateGenerator.createSelfSigned({
    // Its own name each time: a client that trusts several must not mix them up.
    name: `CN=Carillon ${randomBytes(4).toString('hex')}`,
    serialNumber: serialNumber(),
    ...lifetime(days),
    keys,
    signingAlgorithm: SIGNATURE,
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return toPem(certificate, keys);
}

/**
 * Makes a server's certificate, signed by an authority.
 *
 * @param names host names and IP addresses that the server is reached by
 */
export async function makeServerCertificate(
  authority: KeyPair,
  names: readonly string[],
  days: number,
): Promise<KeyPair> {
  const keys = await newKeys();
  const issuer = new X509Certificate(authority.certificate);
  const certificate = await X509CertificateGenerator.create({
    subject: 'CN=Carillon',
    issuer: issuer.subject,
    serialNumber: serialNumber(),
    ...lifetime(days),
    publicKey: keys.publicKey,
    signingKey: await readKey(authority.key),
    signingAlgorithm: SIGNATURE,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
      new SubjectAlternativeNameExtension(names.map(toAlternativeName)),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
      await AuthorityKeyIdentifierExtension.create(issuer.publicKey),
    ],
  });
  return toPem(certificate, keys);
}

function toAlternativeName(name: string): { type: 'ip' | 'dns'; value: string } {
  return { type: isIP(name) === 0 ? 'dns' : 'ip', value: name };
}

function newKeys(): Promise<webcrypto.CryptoKeyPair> {
  return crypto.subtle.generateKey(CURVE, true, ['sign', 'verify']);
}

function readKey(pem: string): Promise<webcrypto.CryptoKey> {
  const [der] = PemConverter.decode(pem);
  if (der === undefined) throw new Error('the key of the certificate authority is no PEM');
  return crypto.subtle.importKey('pkcs8', der, CURVE, false, ['sign']);
}

async function toPem(
  certificate: X509Certificate,
  { privateKey }: webcrypto.CryptoKeyPair,
): Promise<KeyPair> {
  const der = await crypto.subtle.exportKey('pkcs8', privateKey);
  return {
    certificate: `${certificate.toString('pem')}\n`,
    key: `${PemConverter.encode(der, 'PRIVATE KEY')}\n`,
  };
}

function lifetime(days: number): { notBefore: Date; notAfter: Date } {
  const now = Date.now();
  return { notBefore: new Date(now - BACKDATED_MS), notAfter: new Date(now + days * DAY_MS) };
}

/** Positive, 16 bytes (RFC 5280, 4.1.2.2). */
function serialNumber(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes.toString('hex');
}
