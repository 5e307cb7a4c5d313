import { createPrivateKey, X509Certificate } from 'node:crypto';
// Reads .p12 files with the ciphers that Keychain Access uses (RC2, 3DES), which OpenSSL 3 and WebCrypto refuse.
import forge from 'node-forge';
import { invalidCredential } from '../admin-error.ts';
import type { CredentialFile, VerifiedCredential } from '../credentials.ts';

/** Extensions by which Apple marks the APNs environments that a certificate is valid for. */
const ENVIRONMENT_OIDS = {
  development: '1.2.840.113635.100.6.3.1',
  production: '1.2.840.113635.100.6.3.2',
} as const;

/** Options of a certificate file. */
export interface AppleCertificateOptions {
  passphrase?: string;
  /** The only environment it is for; absent: both. */
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
  if (!certificate.checkPrivateKey(createPrivateKey(pemPair.key))) {
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
  const certificate = /-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----/s.exec(text)?.[0];
  if (certificate === undefined) throw invalidCredential(`${name} contains no certificate.`);
  try {
    const key = createPrivateKey({ key: text, format: 'pem', passphrase });
    return { certificate, key: key.export({ format: 'pem', type: 'pkcs8' }).toString() };
  } catch {
    throw invalidCredential(
      `${name} contains no private key that this passphrase decrypts.`,
      'passphrase',
    );
  }
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
  const certificate = bags(certBag)
    .flatMap(({ cert }) => (cert ? [forge.pki.certificateToPem(cert)] : []))
    .find((candidate) => new X509Certificate(candidate).checkPrivateKey(createPrivateKey(pem)));
  if (certificate === undefined) {
    throw invalidCredential(`${file.name} contains no certificate for its private key.`);
  }
  return { certificate, key: pem };
}

function decodeP12({ name, content }: CredentialFile, passphrase: string): forge.pkcs12.Pkcs12Pfx {
  try {
    const asn1 = forge.asn1.fromDer(forge.util.createBuffer(content.toString('binary')));
    return forge.pkcs12.pkcs12FromAsn1(asn1, passphrase);
  } catch (error) {
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
