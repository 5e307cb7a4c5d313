import { createCipheriv, createECDH, createSecretKey, hash, randomBytes } from 'node:crypto';

const POINT_BYTES = 65;
const SALT_BYTES = 16;
const TAG_BYTES = 16;
const HEADER_BYTES = SALT_BYTES + 4 + 1 + POINT_BYTES;
const RECORD_SIZE = 4_096;
/** RFC 8188, 2: closes the last record. */
const LAST_RECORD = Buffer.of(2);

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
  // ECDH objects: importing a point as a key object costs more than it saves.
  const ours = createECDH('prime256v1');
  const ourPoint = ours.generateKeys();
  const shared = ours.computeSecret(readerPoint);

  const salt = randomBytes(SALT_BYTES);
  const secret = hmac(Buffer.from(reader.auth, 'base64url'), shared);
  const keyMaterial = hmac(secret, Buffer.concat([KEY_INFO, readerPoint, ourPoint, ONE]));
  const pseudoRandomKey = hmac(salt, keyMaterial);
  const key = hmac(pseudoRandomKey, CEK_INFO).subarray(0, 16);
  const nonce = hmac(pseudoRandomKey, NONCE_INFO).subarray(0, 12);

  // A key object: to see that a buffer is none costs Node more than to make one.
  const cipher = createCipheriv('aes-128-gcm', createSecretKey(key), nonce);
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
