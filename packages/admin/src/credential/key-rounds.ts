import forge from 'node-forge';
import { invalidCredential } from '../admin-error.ts';

/** Maximum rounds of all key derivations in a file. Keychain Access and OpenSSL write files with a few thousand. */
const MAX_ROUNDS = 1_000_000;

/** First byte of a sequence in DER. */
const SEQUENCE_BYTE = 0x30;
const { Class, Type } = forge.asn1;
type Asn1 = forge.asn1.Asn1;

/**
 * Checks the rounds of key derivation that a .p12 file or an encrypted private key asks for, before they are run. The
 * contents of a .p12 file are decrypted once their own rounds are known to be few, for the rounds within them.
 *
 * @param name of the file, for the message
 * @throws AdminError INVALID_CREDENTIAL if they are more than {@link MAX_ROUNDS}
 */
export function requireFewRounds(name: string, root: Asn1, passphrase: string): void {
  const contents: Asn1[] = [];
  let rounds = countRounds(root, contents);
  for (const content of contents) {
    requireFew(name, rounds);
    const decrypted = tryDecrypt(content, passphrase);
    if (decrypted !== null) rounds += countRounds(decrypted, []);
  }
  requireFew(name, rounds);
}

function requireFew(name: string, rounds: number): void {
  if (rounds <= MAX_ROUNDS) return;
  throw invalidCredential(
    `${name} asks for more than ${MAX_ROUNDS.toLocaleString('en')} rounds of key derivation. Export it again with fewer.`,
  );
}

/** Returns null for a content that can't be decrypted: the file is refused for it later. */
function tryDecrypt(content: Asn1, passphrase: string): Asn1 | null {
  try {
    return forge.pki.decryptPrivateKeyInfo(content, passphrase);
  } catch {
    return null;
  }
}

/** Sums the rounds in a tree, also in octet strings that hold one, and adds its encrypted contents to `contents`. */
function countRounds(node: Asn1, contents: Asn1[]): number {
  if (isOctetString(node)) return countNestedRounds(joinPieces(node), contents);
  if (typeof node.value === 'string') return 0;
  const content = findEncryptedContent(node.value);
  if (content !== undefined) contents.push(content);
  const own = readRounds(node.value);
  return node.value.reduce((sum, child) => sum + countRounds(child, contents), own);
}

function countNestedRounds(bytes: string, contents: Asn1[]): number {
  if (bytes.charCodeAt(0) !== SEQUENCE_BYTE) return 0;
  let nested: Asn1;
  try {
    nested = forge.asn1.fromDer(bytes);
  } catch {
    return 0;
  }
  return countRounds(nested, contents);
}

/** Returns the integer behind a salt: PKCS #12 (RFC 7292, 4 and B), PBES1 and PBKDF2 (RFC 8018, A.2 and A.3) have it there. */
function readRounds(children: readonly Asn1[]): number {
  const rounds = children[children.findIndex(isOctetString) + 1];
  const hasSalt = children.some(isOctetString);
  if (!hasSalt || rounds?.tagClass !== Class.UNIVERSAL || rounds.type !== Type.INTEGER) return 0;
  return typeof rounds.value === 'string' ? Number(`0x0${forge.util.bytesToHex(rounds.value)}`) : 0;
}

/** Returns an EncryptedContentInfo (RFC 2315, 10.1) as an encrypted private key, which has the same two parts. */
function findEncryptedContent([type, algorithm, content]: readonly Asn1[]): Asn1 | undefined {
  if (type?.type !== Type.OID || algorithm?.type !== Type.SEQUENCE) return undefined;
  if (content?.tagClass !== Class.CONTEXT_SPECIFIC) return undefined;
  const octets = forge.asn1.create(Class.UNIVERSAL, Type.OCTETSTRING, false, joinPieces(content));
  return forge.asn1.create(Class.UNIVERSAL, Type.SEQUENCE, true, [algorithm, octets]);
}

function isOctetString({ tagClass, type }: Asn1): boolean {
  return tagClass === Class.UNIVERSAL && type === Type.OCTETSTRING;
}

/** Returns the bytes of an octet string, which may come in pieces (BER). */
function joinPieces({ value }: Asn1): string {
  if (typeof value === 'string') return value;
  return value.map((piece) => (typeof piece.value === 'string' ? piece.value : '')).join('');
}
