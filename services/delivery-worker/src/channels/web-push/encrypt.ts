import {
  createCipheriv,
  createECDH,
  createSecretKey,
  hash,
  randomBytes,
  randomFillSync,
} from 'node:crypto';

const POINT_BYTES = 65;
const SALT_BYTES = 16;
const TAG_BYTES = 16;
const HEADER_BYTES = SALT_BYTES + 4 + 1 + POINT_BYTES;
const RECORD_SIZE = 4_096;
/** RFC 8188, 2: closes the last record. */
const LAST_RECORD = 2;

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
 * Makes a key pair for each message. One object for all, as nothing here waits; and ECDH objects, because importing
 * a point as a key object costs more than it saves.
 */
const ours = createECDH('prime256v1');
const nextSalt = createSalts();

/**
 * Encrypts a message for a browser: one record of content encoding aes128gcm (RFC 8291, 3 and 4). Each has a
 * key pair and a salt of its own.
 *
 * @returns the body of the request, 103 bytes longer than the message
 * @throws when the reader's key is no point on P-256
 */
export function encrypt(plaintext: Buffer, reader: Reader): Buffer {
  const readerPoint = Buffer.from(reader.p256dh, 'base64url');
  const ourPoint = ours.generateKeys();
  const shared = ours.computeSecret(readerPoint);

  const salt = nextSalt();
  const secret = hmac(Buffer.from(reader.auth, 'base64url'), shared);
  const keyMaterial = hmac(secret, Buffer.concat([KEY_INFO, readerPoint, ourPoint, ONE]));
  const pseudoRandomKey = hmac(salt, keyMaterial);
  const key = hmac(pseudoRandomKey, CEK_INFO).subarray(0, 16);
  const nonce = hmac(pseudoRandomKey, NONCE_INFO).subarray(0, 12);

  const body = Buffer.allocUnsafe(HEADER_BYTES + plaintext.length + 1 + TAG_BYTES);
  const record = body.subarray(HEADER_BYTES, HEADER_BYTES + plaintext.length + 1);
  plaintext.copy(record);
  record[plaintext.length] = LAST_RECORD;
  // A key object: to see that a buffer is none costs Node more than to make one.
  const cipher = createCipheriv('aes-128-gcm', createSecretKey(key), nonce);
  cipher.update(record).copy(record);
  cipher.final();
  cipher.getAuthTag().copy(body, HEADER_BYTES + record.length);
  writeHeader(body, salt, ourPoint);
  return body;
}

/** RFC 8188, 2.1: salt, record size, key id. */
function writeHeader(body: Buffer, salt: Buffer, point: Buffer): void {
  salt.copy(body);
  body.writeUInt32BE(RECORD_SIZE, SALT_BYTES);
  body.writeUInt8(POINT_BYTES, SALT_BYTES + 4);
  point.copy(body, SALT_BYTES + 5);
}

/** Draws random bytes for many salts at once; each is given out once, and good until the next is asked for. */
function createSalts(): () => Buffer {
  const drawn = randomBytes(SALT_BYTES * 256);
  let at = 0;
  return () => {
    if (at === drawn.length) {
      randomFillSync(drawn);
      at = 0;
    }
    at += SALT_BYTES;
    return drawn.subarray(at - SALT_BYTES, at);
  };
}

const BLOCK_BYTES = 64;
const HASH_BYTES = 32;
const INNER = 0x36;
const OUTER = 0x5c;
const MAX_MESSAGE_BYTES = 256;
const inner = Buffer.alloc(BLOCK_BYTES + MAX_MESSAGE_BYTES);
const outer = Buffer.alloc(BLOCK_BYTES + HASH_BYTES);

/**
 * HMAC-SHA-256 (RFC 2104) by two one-shot hashes: a small part of createHmac's cost for a key that is used once.
 *
 * @param key at most 64 bytes
 * @param message at most 256 bytes
 */
function hmac(key: Buffer, message: Buffer): Buffer {
  inner.fill(INNER, 0, BLOCK_BYTES);
  outer.fill(OUTER, 0, BLOCK_BYTES);
  for (let at = 0; at < key.length; at += 1) {
    const byte = key[at] ?? 0;
    inner[at] = byte ^ INNER;
    outer[at] = byte ^ OUTER;
  }
  message.copy(inner, BLOCK_BYTES);
  // As a string: making a buffer costs more than to write its bytes again.
  const hashed = hash('sha256', inner.subarray(0, BLOCK_BYTES + message.length), 'binary');
  outer.write(hashed, BLOCK_BYTES, 'latin1');
  return hash('sha256', outer, 'buffer');
}
