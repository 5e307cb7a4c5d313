import { createPrivateKey, X509Certificate } from 'node:crypto';
import forge from 'node-forge';
import { refused } from '../failure.ts';
import { type Checked, readGiven } from './checked.ts';

/** Which gateways a certificate of Apple is for (extensions of the certificate, as Apple issues them). */
const ENVIRONMENTS = {
  development: '1.2.840.113635.100.6.3.1',
  production: '1.2.840.113635.100.6.3.2',
} as const;

/** The options that a .p12 file comes with. */
export interface AppleCertificateOptions {
  certificate: string;
  passphraseFile?: string;
  environment?: 'development' | 'production';
}

/**
 * Checks a certificate for APNs: a .p12 file, or PEM with the private key in it.
 *
 * @throws Failure with the reason why it can't work
 */
export function checkAppleCertificate(
  { certificate: path, passphraseFile, environment }: AppleCertificateOptions,
  now = new Date(),
): Checked {
  const bytes = readGiven(path);
  const passphrase =
    passphraseFile === undefined ? '' : readGiven(passphraseFile).toString('utf8').trim();
  const isPem = bytes.includes('-----BEGIN');
  const pems = isPem
    ? fromPem(path, bytes.toString('utf8'), passphrase)
    : fromP12(path, bytes, passphrase);
  const certificate = new X509Certificate(pems.certificate);
  if (!certificate.checkPrivateKey(createPrivateKey(pems.key))) {
    throw refused(`The private key in ${path} is not the certificate's.`);
  }
  if (certificate.validToDate < now) {
    throw refused(`The certificate in ${path} ended on ${certificate.validTo}.`);
  }
  const environments = environmentsOf(pems.certificate);
  if (environments.length === 0) throw refused(`The certificate in ${path} is not one for APNs.`);
  for (const wanted of environment === undefined ? Object.keys(ENVIRONMENTS) : [environment]) {
    if (environments.includes(wanted)) continue;
    throw refused(
      `The certificate in ${path} is for ${environments.join(' and ')} only; say so with --environment ${environments[0]}.`,
    );
  }
  return {
    channel: 'apns',
    secret: { kind: 'apns-certificate', ...pems },
    about: {
      kind: 'certificate',
      subject: certificate.subject.replaceAll('\n', ', '),
      validTo: certificate.validToDate.toISOString(),
    },
  };
}

interface Pems {
  certificate: string;
  key: string;
}

function fromPem(path: string, text: string, passphrase: string): Pems {
  const certificate = /-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----/s.exec(text)?.[0];
  if (certificate === undefined) throw refused(`${path} holds no certificate.`);
  try {
    const key = createPrivateKey({ key: text, format: 'pem', passphrase });
    return { certificate, key: key.export({ format: 'pem', type: 'pkcs8' }).toString() };
  } catch {
    throw refused(`${path} holds no private key that opens with this passphrase.`);
  }
}

function fromP12(path: string, bytes: Buffer, passphrase: string): Pems {
  const box = openP12(path, bytes, passphrase);
  const bags = (type: string | undefined) =>
    type === undefined ? [] : (box.getBags({ bagType: type })[type] ?? []);
  const { certBag, keyBag, pkcs8ShroudedKeyBag } = forge.pki.oids;
  const [key] = [...bags(pkcs8ShroudedKeyBag), ...bags(keyBag)];
  if (key?.key == null)
    throw refused(`${path} holds no private key; export the certificate with its key.`);
  const pem = forge.pki.privateKeyToPem(key.key);
  const own = bags(certBag)
    .flatMap(({ cert }) => (cert ? [forge.pki.certificateToPem(cert)] : []))
    .find((one) => new X509Certificate(one).checkPrivateKey(createPrivateKey(pem)));
  if (own === undefined) throw refused(`${path} holds no certificate for its private key.`);
  return { certificate: own, key: pem };
}

function openP12(path: string, bytes: Buffer, passphrase: string): forge.pkcs12.Pkcs12Pfx {
  try {
    const asn1 = forge.asn1.fromDer(forge.util.createBuffer(bytes.toString('binary')));
    return forge.pkcs12.pkcs12FromAsn1(asn1, passphrase);
  } catch (error) {
    const isWrong = error instanceof Error && /password|MAC/i.test(error.message);
    throw refused(
      isWrong
        ? `${path} does not open with this passphrase; name a file that holds it with --passphrase-file.`
        : `${path} is neither a .p12 file nor PEM.`,
    );
  }
}

function environmentsOf(pem: string): string[] {
  const { extensions } = forge.pki.certificateFromPem(pem);
  const ids = new Set(extensions.map(({ id }: { id?: string }) => id));
  return Object.entries(ENVIRONMENTS).flatMap(([name, id]) => (ids.has(id) ? [name] : []));
}
