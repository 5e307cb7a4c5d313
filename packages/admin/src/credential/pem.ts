import { createPrivateKey, type KeyObject } from 'node:crypto';
import { invalidCredential } from '../admin-error.ts';

/** Maximum length of an RSA key, in bits. A delivery worker signs with it. */
const MAX_RSA_BITS = 4_096;
/**
 * Maximum length of a private key in PEM, in characters; an RSA key of {@link MAX_RSA_BITS} has 3,272. OpenSSL computes the
 * public half of some kinds of keys when it reads them, which takes minutes for a long one.
 */
const MAX_KEY_CHARACTERS = 4_096;

/** A block of PEM. */
export interface PemBlock {
  label: string;
  /** The text between the lines that enclose it. */
  body: string;
  /** The whole block. */
  pem: string;
}

/**
 * Finds the first block of a label. A regular expression for the whole block would take the square of the text's length.
 *
 * @param begin matches the first line; its group is the label
 */
export function findPemBlock(text: string, begin: RegExp): PemBlock | undefined {
  const found = begin.exec(text);
  if (found === null) return undefined;
  const [line, label = ''] = found;
  const endLine = `-----END ${label}-----`;
  const to = text.indexOf(endLine, found.index);
  const body = text.slice(found.index + line.length, to);
  // OpenSSL would look for a key in a block within.
  if (to < 0 || body.includes('-----')) return undefined;
  return { label, body, pem: line + body + endLine };
}

/**
 * Reads a private key of a bounded length.
 *
 * @param name of the file, for the message
 * @param passphrase of a key in OpenSSL's own format, which derives the cipher's key in a single round
 * @throws AdminError INVALID_CREDENTIAL for a key that is too long; Error for what is no key
 */
export function readPrivateKey(name: string, pem: string, passphrase?: string): KeyObject {
  if (pem.length > MAX_KEY_CHARACTERS) throw keyTooLong(name);
  const key = createPrivateKey({ key: pem, ...(passphrase !== undefined && { passphrase }) });
  if ((key.asymmetricKeyDetails?.modulusLength ?? 0) > MAX_RSA_BITS) throw keyTooLong(name);
  return key;
}

function keyTooLong(name: string) {
  const bits = MAX_RSA_BITS.toLocaleString('en');
  return invalidCredential(`The private key in ${name} has more than ${bits} bits.`);
}
