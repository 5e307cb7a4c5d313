import { type KeyObject, X509Certificate } from 'node:crypto';
// Reads .p12 files with the ciphers that Keychain Access uses (RC2, 3DES), which OpenSSL 3 and WebCrypto refuse.
import forge from 'node-forge';
import { AdminError, invalidCredential } from '../admin-error.ts';
import type { CredentialFile, VerifiedCredential } from '../credentials.ts';
import { requireFewRounds } from './key-rounds.ts';
import { findPemBlock, type PemBlock, readPrivateKey } from './pem.ts';

/** Extensions by which Apple marks the APNs environments that a certificate is valid for. */
const ENVIRONMENT_OIDS = {
  development: '1.2.840.113635.100.6.3.1',
  production: '1.2.840.113635.100.6.3.2',
} as const;

/** Object id of scrypt (RFC 7914) in DER. */
const SCRYPT = forge.asn1.oidToDer('1.3.6.1.4.1.11591.4.11').getBytes();

/** Options of a certificate file. */
export interface AppleCertificateOptions {
  passphrase?: string;
  /** The only environment it is for; absent means both. */
  environment?: keyof typeof ENVIRONMENT_OIDS;
}

/**
 * Verifies a certificate for APNs: a .p12 file, or PEM that also contains the private key.
 *
 * @throws AdminError INVALID_CREDENTIAL
 */
export function verifyAppleCertificate(
  file: CredentialFile,
  { passphrase = '', environment }: AppleCertificateOptions,
  now = new Date(),
): VerifiedCredential {
  const isPem = file.content.includes('-----BEGIN');
  const pemPair = isPem ? readPem(file, passphrase) : readP12(file, passphrase);
  const certificate = new X509Certificate(pemPair.certificate);
  if (!certificate.checkPrivateKey(readPrivateKey(file.name, pemPair.key))) {
    throw invalidCredential(`The private key in ${file.name} is not the certificate's.`);
  }
  if (certificate.validToDate < now) {
    throw invalidCredential(`The certificate in ${file.name} expired on ${certificate.validTo}.`);
  }
  requireEnvironments(file.name, listEnvironments(pemPair.certificate), environment);
  return {
    channel: 'apns',
    secret: { kind: 'apns-certificate', ...pemPair },
    about: {
      kind: 'certificate',
      subject: certificate.subject.replaceAll('\n', ', '),
      validTo: certificate.validToDate.toISOString(),
    },
  };
}

function requireEnvironments(
  name: string,
  environments: readonly string[],
  environment: AppleCertificateOptions['environment'],
): void {
  if (environments.length === 0) {
    throw invalidCredential(`The certificate in ${name} is not a certificate for APNs.`);
  }
  const required = environment === undefined ? Object.keys(ENVIRONMENT_OIDS) : [environment];
  if (required.every((one) => environments.includes(one))) return;
  throw invalidCredential(
    `The certificate in ${name} is only for ${environments.join(' and ')}: set the environment to ${environments[0]}.`,
    'environment',
  );
}

interface PemPair {
  certificate: string;
  key: string;
}

function readPem({ name, content }: CredentialFile, passphrase: string): PemPair {
  const text = content.toString('utf8');
  const certificate = findPemBlock(text, /-----BEGIN (CERTIFICATE)-----/);
  if (certificate === undefined) throw invalidCredential(`${name} contains no certificate.`);
  try {
    const block = findPemBlock(text, /-----BEGIN ([A-Z ]*PRIVATE KEY)-----/);
    const key = readPemKey(name, block, passphrase).export({ format: 'pem', type: 'pkcs8' });
    return { certificate: certificate.pem, key: key.toString() };
  } catch (error) {
    if (error instanceof AdminError) throw error;
    throw invalidCredential(
      `${name} contains no private key that this passphrase decrypts.`,
      'passphrase',
    );
  }
}

/**
 * Reads a private key. OpenSSL can't be interrupted, so the cost of deriving the key is known to be small before it does.
 *
 * @throws AdminError INVALID_CREDENTIAL for too many rounds, and for scrypt, which has three costs instead; Error if there is no key, or the passphrase is wrong
 */
function readPemKey(name: string, block: PemBlock | undefined, passphrase: string): KeyObject {
  if (block === undefined) throw new Error('no private key');
  if (block.label === 'PRIVATE KEY') return readPrivateKey(name, block.pem);
  if (block.label !== 'ENCRYPTED PRIVATE KEY') return readPrivateKey(name, block.pem, passphrase);
  const encrypted = forge.asn1.fromDer(forge.util.decode64(block.body));
  requireFewRounds(name, encrypted, passphrase);
  if (forge.asn1.toDer(encrypted).getBytes().includes(SCRYPT))
    throw invalidCredential(`The private key in ${name} is encrypted with scrypt. Use PBKDF2.`);
  return readPrivateKey(name, block.pem, passphrase);
}

function readP12(file: CredentialFile, passphrase: string): PemPair {
  const container = decodeP12(file, passphrase);
  const bags = (type: string | undefined) =>
    type === undefined ? [] : (container.getBags({ bagType: type })[type] ?? []);
  const { certBag, keyBag, pkcs8ShroudedKeyBag } = forge.pki.oids;
  const [key] = [...bags(pkcs8ShroudedKeyBag), ...bags(keyBag)];
  if (key?.key == null) {
    throw invalidCredential(
      `${file.name} contains no private key; export the certificate with its key.`,
    );
  }
  const pem = forge.pki.privateKeyToPem(key.key);
  const privateKey = readPrivateKey(file.name, pem);
  const certificate = bags(certBag)
    .flatMap(({ cert }) => (cert ? [forge.pki.certificateToPem(cert)] : []))
    .find((candidate) => new X509Certificate(candidate).checkPrivateKey(privateKey));
  if (certificate === undefined) {
    throw invalidCredential(`${file.name} contains no certificate for its private key.`);
  }
  return { certificate, key: pem };
}

function decodeP12({ name, content }: CredentialFile, passphrase: string): forge.pkcs12.Pkcs12Pfx {
  try {
    const asn1 = forge.asn1.fromDer(forge.util.createBuffer(content.toString('binary')));
    requireFewRounds(name, asn1, passphrase);
    return forge.pkcs12.pkcs12FromAsn1(asn1, passphrase);
  } catch (error) {
    if (error instanceof AdminError) throw error;
    if (error instanceof Error && /password|MAC/i.test(error.message)) {
      throw invalidCredential(`The passphrase does not decrypt ${name}.`, 'passphrase');
    }
    throw invalidCredential(`${name} is neither a .p12 file nor PEM.`);
  }
}

function listEnvironments(pem: string): string[] {
  const { extensions } = forge.pki.certificateFromPem(pem);
  const ids = new Set(extensions.map(({ id }: { id?: string }) => id));
  return Object.entries(ENVIRONMENT_OIDS).flatMap(([name, id]) => (ids.has(id) ? [name] : []));
}
