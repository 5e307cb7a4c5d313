import { randomBytes } from 'node:crypto';
import forge from 'node-forge';

/** Passphrase of the files. */
export const PASSPHRASE = 'open sesame';

const { Class, Type } = forge.asn1;
type Asn1 = forge.asn1.Asn1;

const primitive = (type: forge.asn1.Type, bytes: string) =>
  forge.asn1.create(Class.UNIVERSAL, type, false, bytes);
const sequence = (...items: Asn1[]) =>
  forge.asn1.create(Class.UNIVERSAL, Type.SEQUENCE, true, items);
const explicit = (item: Asn1) =>
  forge.asn1.create(Class.CONTEXT_SPECIFIC, 0 as forge.asn1.Type, true, [item]);
const oid = (id = '') => primitive(Type.OID, forge.asn1.oidToDer(id).getBytes());
const octets = (bytes: string) => primitive(Type.OCTETSTRING, bytes);
const toDer = (node: Asn1) => forge.asn1.toDer(node).getBytes();
const integer = (bytes: Buffer) => primitive(Type.INTEGER, bytes.toString('binary'));

function number(value: number): Asn1 {
  // Five bytes, so that no number is taken for a negative one.
  const bytes = Buffer.alloc(value < 128 ? 1 : 5);
  bytes.writeUIntBE(value, 0, bytes.length);
  return integer(bytes);
}

const { oids } = forge.pki;

/** Parameters of an encryption that asks for so many rounds. */
function encryption(rounds: number): Asn1 {
  return sequence(
    oid(oids['pbeWithSHAAnd3-KeyTripleDES-CBC']),
    sequence(octets('saltsalt'), number(rounds)),
  );
}

const encryptedKey = (rounds: number) => sequence(encryption(rounds), octets('x'.repeat(64)));
const keyBag = (rounds: number) =>
  sequence(oid(oids.pkcs8ShroudedKeyBag), explicit(encryptedKey(rounds)));
const plainContent = (...bags: Asn1[]) =>
  sequence(oid(oids.data), explicit(octets(toDer(sequence(...bags)))));

function encryptedContent(algorithm: Asn1, bytes: string): Asn1 {
  const content = forge.asn1.create(Class.CONTEXT_SPECIFIC, 0 as forge.asn1.Type, false, bytes);
  const info = sequence(oid(oids.data), algorithm, content);
  return sequence(oid(oids.encryptedData), explicit(sequence(number(0), info)));
}

/** A content whose own rounds are few, with an encrypted key in it. */
function contentAround(bag: Asn1): Asn1 {
  const encrypted = forge.pki.encryptPrivateKeyInfo(sequence(bag), PASSPHRASE, {
    algorithm: '3des',
    count: 1,
  });
  const [algorithm, content] = encrypted.value as [Asn1, Asn1];
  return encryptedContent(algorithm, content.value as string);
}

/** A .p12 file; without a MAC, which is not checked then, its contents are decrypted at once. */
function p12(contents: Asn1[], macRounds?: number): Buffer {
  const algorithm = sequence(oid(oids.sha1), primitive(Type.NULL, ''));
  const digest = sequence(algorithm, octets('x'.repeat(20)));
  const file = sequence(
    number(3),
    sequence(oid(oids.data), explicit(octets(toDer(sequence(...contents))))),
    ...(macRounds === undefined ? [] : [sequence(digest, octets('saltsalt'), number(macRounds))]),
  );
  return Buffer.from(toDer(file), 'binary');
}

/** Files that ask for so many rounds of key derivation, by the place that has their number. */
export const FILES_OF_ROUNDS = {
  'the MAC of a .p12 file': (rounds: number) => p12([plainContent()], rounds),
  'a key of a .p12 file': (rounds: number) => p12([plainContent(keyBag(rounds))]),
  'a content of a .p12 file': (rounds: number) =>
    p12([encryptedContent(encryption(rounds), 'x'.repeat(64))]),
  'a key in an encrypted content': (rounds: number) => p12([contentAround(keyBag(rounds))]),
  'a hundred keys of a .p12 file': (rounds: number) => {
    const count = rounds / 100;
    const key = forge.pki.encryptPrivateKeyInfo(sequence(), PASSPHRASE, {
      algorithm: '3des',
      count,
    });
    const bag = sequence(oid(oids.pkcs8ShroudedKeyBag), explicit(key));
    return p12([plainContent(...Array.from({ length: 100 }, () => bag))]);
  },
};

/** A private key in PEM that asks for so many rounds of PBKDF2. */
export function pemOfRounds(rounds: number): string {
  const derivation = sequence(
    oid(oids.pkcs5PBKDF2),
    sequence(octets('saltsalt'), number(rounds), sequence(oid(oids.hmacWithSHA256))),
  );
  const cipher = sequence(oid(oids['aes256-CBC']), octets('i'.repeat(16)));
  const algorithm = sequence(oid(oids.pkcs5PBES2), sequence(derivation, cipher));
  return toPem('ENCRYPTED PRIVATE KEY', sequence(algorithm, octets('x'.repeat(64))));
}

/** A private key for DSA with numbers of so many bytes: reading it computes a power with an exponent of that length. */
export function dsaKeyOfBytes(bytes: number): string {
  const odd = () => {
    const random = randomBytes(bytes);
    random[0] = 0x7f;
    random[bytes - 1] = 1;
    return random;
  };
  const parameters = sequence(integer(odd()), integer(odd().subarray(-20)), number(2));
  const key = octets(toDer(integer(odd())));
  return toPem(
    'PRIVATE KEY',
    sequence(number(0), sequence(oid('1.2.840.10040.4.1'), parameters), key),
  );
}

function toPem(type: string, node: Asn1): string {
  return forge.pem.encode({ type, body: toDer(node) });
}
