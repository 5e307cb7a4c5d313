import { generateKeyPair } from 'node:crypto';
import { promisify } from 'node:util';
import { type KeyPair, makeClientCertificate } from '@carillon/runtime/certificates';
import forge from 'node-forge';

/** Apple's extensions of a push certificate, for its development and its production environment. */
const APPLE_ENVIRONMENT_OIDS = ['1.2.840.113635.100.6.3.1', '1.2.840.113635.100.6.3.2'];
/** The subject attribute UID, in which Apple puts the bundle id (RFC 4519, 2.39). */
const UID = '0.9.2342.19200300.100.1.1';
/** Rounds of key derivation: one, because the passphrase is public. */
const P12_ROUNDS = 1;

/** Creates a client certificate as Apple issues it for a bundle, valid for both environments. */
export function makePushCertificate(
  authority: KeyPair,
  bundle: string,
  days: number,
): Promise<KeyPair> {
  const subject = [{ [UID]: [bundle] }, { CN: [`Apple Push Services: ${bundle}`] }];
  return makeClientCertificate(authority, subject, APPLE_ENVIRONMENT_OIDS, days);
}

/**
 * Packs a certificate and its RSA key as PKCS #12 with 3DES, as Apple's Keychain exports it. Only
 * node-forge supports that; certificates are made with `@peculiar/x509`.
 */
export function packP12({ certificate, key }: KeyPair, passphrase: string): Buffer {
  const packed = forge.pkcs12.toPkcs12Asn1(
    forge.pki.privateKeyFromPem(key),
    [forge.pki.certificateFromPem(certificate)],
    passphrase,
    { algorithm: '3des', count: P12_ROUNDS },
  );
  return Buffer.from(forge.asn1.toDer(packed).getBytes(), 'binary');
}

const generateKeyPairAsync = promisify(generateKeyPair);

/** Creates an RSA private key of 2,048 bits, PEM. */
export async function makeRsaKey(): Promise<string> {
  const { privateKey } = await generateKeyPairAsync('rsa', {
    modulusLength: 2_048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  return privateKey;
}
