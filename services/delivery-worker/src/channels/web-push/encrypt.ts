import {
  createCipheriv,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hash,
  type KeyObject,
  randomFillSync,
} from 'node:crypto';

const POINT_BYTES = 65;
const SALT_BYTES = 16;
const TAG_BYTES = 16;
const HEADER_BYTES = SALT_BYTES + 4 + 1 + POINT_BYTES;
const RECORD_SIZE = 4_096;
/** RFC 8188, 2: closes the last record. */
const LAST_RECORD = Buffer.of(2);

/** A P-256 point follows this in its SubjectPublicKeyInfo (RFC 5480, 2). */
const SPKI_PREFIX = Buffer.from('3059301306072a8648ce3d020106082a8648ce3d030107034200', 'hex');

const ONE = Buffer.of(1);
const KEY_INFO = Buffer.from('WebPush: info\0');
const CEK_INFO = Buffer.from('Content-Encoding: aes128gcm\0\x01');
const NONCE_INFO = Buffer.from('Content-Encoding: nonce\0\x01');

/** Whom a message is for: the keys of a browser's subscription, base64url. */
export interface Reader {
  p256dh: string;
  auth: string;
}

/**
 * Encrypts a message for a browser: one record of content encoding aes128gcm (RFC 8291, 3 and 4). Each has a
 * key pair and a salt of its own.
 *
 * @returns the body of the request, 103 bytes longer than the message
 * @throws when the reader's key is no point on P-256
 */
export function encrypt(plaintext: Buffer, reader: Reader): Buffer {
  const readerPoint = Buffer.from(reader.p256dh, 'base64url');
  const ours = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const ourPoint = ours.publicKey.export({ type: 'spki', format: 'der' }).subarray(-POINT_BYTES);
  const shared = diffieHellman({ privateKey: ours.privateKey, publicKey: asKey(readerPoint) });

  const salt = randomFillSync(Buffer.allocUnsafe(SALT_BYTES));
  const secret = hmac(Buffer.from(reader.auth, 'base64url'), shared);
  const keyMaterial = hmac(secret, Buffer.concat([KEY_INFO, readerPoint, ourPoint, ONE]));
  const pseudoRandomKey = hmac(salt, keyMaterial);
  const key = hmac(pseudoRandomKey, CEK_INFO).subarray(0, 16);
  const nonce = hmac(pseudoRandomKey, NONCE_INFO).subarray(0, 12);

  const cipher = createCipheriv('aes-128-gcm', key, nonce);
  const body = [cipher.update(plaintext), cipher.update(LAST_RECORD), cipher.final()];
  return Buffer.concat(
    [header(salt, ourPoint), ...body, cipher.getAuthTag()],
    HEADER_BYTES + plaintext.length + LAST_RECORD.length + TAG_BYTES,
  );
}

/** RFC 8188, 2.1: salt, record size, key id. */
function header(salt: Buffer, point: Buffer): Buffer {
  const rest = Buffer.allocUnsafe(5);
  rest.writeUInt32BE(RECORD_SIZE);
  rest.writeUInt8(POINT_BYTES, 4);
  return Buffer.concat([salt, rest, point]);
}

function asKey(point: Buffer): KeyObject {
  return createPublicKey({
    key: Buffer.concat([SPKI_PREFIX, point]),
    format: 'der',
    type: 'spki',
  });
}

const BLOCK_BYTES = 64;
const INNER = 0x36;
const OUTER = 0x5c;

/**
 * HMAC-SHA-256 (RFC 2104) by two one-shot hashes: a fifth of createHmac's cost for a key that is used once.
 *
 * @param key at most 64 bytes
 */
function hmac(key: Buffer, message: Buffer): Buffer {
  const inner = Buffer.alloc(BLOCK_BYTES + message.length, INNER);
  const outer = Buffer.alloc(BLOCK_BYTES + 32, OUTER);
  for (let at = 0; at < key.length; at += 1) {
    const byte = key[at] ?? 0;
    inner[at] = byte ^ INNER;
    outer[at] = byte ^ OUTER;
  }
  message.copy(inner, BLOCK_BYTES);
  hash('sha256', inner, 'buffer').copy(outer, BLOCK_BYTES);
  return hash('sha256', outer, 'buffer');
}
