import { generateKeyPairSync } from 'node:crypto';
import forge from 'node-forge';

const DAY_MS = 86_400_000;
/** Extensions by which Apple marks push certificates. */
const ENVIRONMENT_OIDS = {
  development: '1.2.840.113635.100.6.3.1',
  production: '1.2.840.113635.100.6.3.2',
};

export interface PemPair {
  certificate: string;
  key: string;
}

/** Shared by all certificates, because generating it takes longer than all other steps. */
const keys = generateKeyPairSync('rsa', {
  modulusLength: 2_048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});

/** Creates a certificate with its key, by default as Apple issues it for both environments of a bundle. */
export function makeCertificate({
  days = 30,
  environments = ['development', 'production'],
}: {
  days?: number;
  environments?: (keyof typeof ENVIRONMENT_OIDS)[];
} = {}): PemPair {
  const certificate = forge.pki.createCertificate();
  certificate.publicKey = forge.pki.publicKeyFromPem(keys.publicKey);
  certificate.serialNumber = '4001';
  certificate.validity.notBefore = new Date(Date.now() - 90 * DAY_MS);
  certificate.validity.notAfter = new Date(Date.now() + days * DAY_MS);
  const name = [{ name: 'commonName', value: 'Apple Push Services: org.example.app' }];
  certificate.setSubject(name);
  certificate.setIssuer(name);
  certificate.setExtensions(
    environments.map((environment) => ({ id: ENVIRONMENT_OIDS[environment], value: '\x05\x00' })),
  );
  certificate.sign(forge.pki.privateKeyFromPem(keys.privateKey), forge.md.sha256.create());
  return { certificate: forge.pki.certificateToPem(certificate), key: keys.privateKey };
}

/** Packs a certificate and its key as a .p12 file. */
export function packP12({ certificate, key }: PemPair, passphrase: string, count = 2_048): Buffer {
  const packed = forge.pkcs12.toPkcs12Asn1(
    forge.pki.privateKeyFromPem(key),
    [forge.pki.certificateFromPem(certificate)],
    passphrase,
    { algorithm: '3des', count },
  );
  return Buffer.from(forge.asn1.toDer(packed).getBytes(), 'binary');
}
