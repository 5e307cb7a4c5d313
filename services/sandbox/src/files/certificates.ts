import { generateKeyPair, randomBytes, sign } from 'node:crypto';
import { isIP } from 'node:net';
import { promisify } from 'node:util';
import forge from 'node-forge';

const DAY_MS = 86_400_000;
/** A client whose clock is a little behind must not find a certificate in its future. */
const BACKDATED_MS = DAY_MS;
/** Apple's marks of a push certificate: for its development and its production environment. */
const APPLE_ENVIRONMENTS = ['1.2.840.113635.100.6.3.1', '1.2.840.113635.100.6.3.2'];
/** The passphrase is no secret, so nothing is to be slowed down. */
const P12_ROUNDS = 1;
const DER_NULL = '\x05\x00';
/** The attribute UID of a subject, in which Apple puts the bundle id (RFC 4519, 2.39). */
const UID = '0.9.2342.19200300.100.1.1';

/** A certificate and its private key, both PEM. */
export interface KeyPair {
  certificate: string;
  key: string;
}

/** What a certificate is for. */
interface Wanted {
  name: string;
  days: number;
  subject?: forge.pki.CertificateField[];
  extensions: object[];
}

/** Makes a certificate authority. */
export function makeAuthority(days: number): Promise<KeyPair> {
  return make({
    // Its own name each time: a client that trusts several must not mix them up.
    name: `Carillon sandbox ${randomBytes(4).toString('hex')}`,
    days,
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
      { name: 'subjectKeyIdentifier' },
    ],
  });
}

/** Makes a server's certificate for these host names and IP addresses. */
export function makeServer(
  authority: KeyPair,
  names: readonly string[],
  days: number,
): Promise<KeyPair> {
  const altNames = names.map((name) =>
    isIP(name) === 0 ? { type: 2, value: name } : { type: 7, ip: name },
  );
  const extensions = [
    { name: 'basicConstraints', cA: false },
    { name: 'extKeyUsage', serverAuth: true },
    { name: 'subjectAltName', altNames },
  ];
  return make({ name: 'Carillon sandbox', days, extensions }, authority);
}

/** Makes a client's certificate as Apple gives it for a bundle, good for both of its environments. */
export function makePushCertificate(
  authority: KeyPair,
  bundle: string,
  days: number,
): Promise<KeyPair> {
  const marks = APPLE_ENVIRONMENTS.map((id) => ({ id, value: DER_NULL }));
  const extensions = [
    { name: 'basicConstraints', cA: false },
    { name: 'extKeyUsage', clientAuth: true },
    ...marks,
  ];
  const subject = [{ type: UID, value: bundle }];
  return make({ name: `Apple Push Services: ${bundle}`, days, subject, extensions }, authority);
}

/** Packs a certificate and its key as PKCS #12. */
export function packP12({ certificate, key }: KeyPair, passphrase: string): Buffer {
  const packed = forge.pkcs12.toPkcs12Asn1(
    forge.pki.privateKeyFromPem(key),
    [forge.pki.certificateFromPem(certificate)],
    passphrase,
    { algorithm: '3des', count: P12_ROUNDS },
  );
  return Buffer.from(forge.asn1.toDer(packed).getBytes(), 'binary');
}

async function make(wanted: Wanted, authority?: KeyPair): Promise<KeyPair> {
  const keys = await makeRsaKeys();
  const certificate = forge.pki.createCertificate();
  certificate.publicKey = forge.pki.publicKeyFromPem(keys.publicKey);
  // Positive (RFC 5280, 4.1.2.2).
  certificate.serialNumber = `40${randomBytes(15).toString('hex')}`;
  certificate.validity.notBefore = new Date(Date.now() - BACKDATED_MS);
  certificate.validity.notAfter = new Date(Date.now() + wanted.days * DAY_MS);
  const subject = [...(wanted.subject ?? []), { name: 'commonName', value: wanted.name }];
  certificate.setSubject(subject);
  certificate.setIssuer(
    authority === undefined
      ? subject
      : forge.pki.certificateFromPem(authority.certificate).subject.attributes,
  );
  certificate.setExtensions(wanted.extensions);
  signBy(certificate, authority?.key ?? keys.privateKey);
  const pem = forge.pki.certificateToPem(certificate).replaceAll('\r', '');
  return { certificate: pem, key: keys.privateKey };
}

/** What the library's types leave out. */
const pki: typeof forge.pki & {
  getTBSCertificate(certificate: forge.pki.Certificate): forge.asn1.Asn1;
} = Object.assign(forge.pki);

/** The library's own signing takes seconds on a busy machine. */
function signBy(certificate: forge.pki.Certificate, key: string): void {
  certificate.signatureOid = pki.oids.sha256WithRSAEncryption ?? '';
  certificate.siginfo.algorithmOid = certificate.signatureOid;
  certificate.tbsCertificate = pki.getTBSCertificate(certificate);
  const bytes = Buffer.from(forge.asn1.toDer(certificate.tbsCertificate).getBytes(), 'binary');
  certificate.signature = sign('sha256', bytes, key).toString('binary');
}

const generate = promisify(generateKeyPair);

/** An RSA key pair of 2,048 bits, PEM; the library's own maker takes seconds. */
export function makeRsaKeys(): Promise<{ publicKey: string; privateKey: string }> {
  return generate('rsa', {
    modulusLength: 2_048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
}
