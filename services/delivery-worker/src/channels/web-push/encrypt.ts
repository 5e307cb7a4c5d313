import {
  createCipheriv,
  createECDH,
  createSecretKey,
  hash,
  randomBytes,
  randomFillSync,
} from 'node:crypto';

/** Length of an uncompressed point of P-256. */
const POINT_BYTES = 65;
const SALT_BYTES = 16;
const TAG_BYTES = 16;
const HEADER_BYTES = SALT_BYTES + 4 + 1 + POINT_BYTES;
/** Record size in the header (RFC 8188, 2.1), in bytes. */
const RECORD_SIZE = 4_096;
/** Delimiter of the last record (RFC 8188, 2). */
const LAST_RECORD = 2;

const ONE = Buffer.of(1);
const KEY_INFO = Buffer.from('WebPush: info\0');
const CEK_INFO = Buffer.from('Content-Encoding: aes128gcm\0\x01');
const NONCE_INFO = Buffer.from('Content-Encoding: nonce\0\x01');

/** Keys of a browser's subscription, base64url. */
export interface SubscriptionKeys {
  p256dh: string;
  auth: string;
}

/**
 * Generates a key pair for each message. One object for all, since nothing here is asynchronous; an ECDH object, since
 * importing a point as a key object costs more than it saves.
 */
const ephemeralKey = createECDH('prime256v1');
const nextSalt = createSaltGenerator();

/**
 * Encrypts a message for a browser: one record of content encoding aes128gcm (RFC 8291, 3 and 4). Each has a
 * key pair and a salt of its own.
 *
 * @returns the body of the request, 103 bytes longer than the message
 * @throws when the subscription's key is no point on P-256
 */
export function encrypt(plaintext: Buffer, subscriptionKeys: SubscriptionKeys): Buffer {
  const subscriberPoint = Buffer.from(subscriptionKeys.p256dh, 'base64url');
  const ephemeralPoint = ephemeralKey.generateKeys();
  const sharedSecret = ephemeralKey.computeSecret(subscriberPoint);

  const salt = nextSalt();
  const secret = hmac(Buffer.from(subscriptionKeys.auth, 'base64url'), sharedSecret);
  const keyMaterial = hmac(secret, Buffer.concat([KEY_INFO, subscriberPoint, ephemeralPoint, ONE]));
  const pseudoRandomKey = hmac(salt, keyMaterial);
  const key = hmac(pseudoRandomKey, CEK_INFO).subarray(0, 16);
  const nonce = hmac(pseudoRandomKey, NONCE_INFO).subarray(0, 12);

  const body = Buffer.allocUnsafe(HEADER_BYTES + plaintext.length + 1 + TAG_BYTES);
  const record = body.subarray(HEADER_BYTES, HEADER_BYTES + plaintext.length + 1);
  plaintext.copy(record);
  record[plaintext.length] = LAST_RECORD;
  // A key object: Node's check that a buffer is none costs more than creating one.
  const cipher = createCipheriv('aes-128-gcm', createSecretKey(key), nonce);
  cipher.update(record).copy(record);
  cipher.final();
  cipher.getAuthTag().copy(body, HEADER_BYTES + record.length);
  writeHeader(body, salt, ephemeralPoint);
  return body;
}

/** Writes the header: salt, record size, key id (RFC 8188, 2.1). */
function writeHeader(body: Buffer, salt: Buffer, point: Buffer): void {
  salt.copy(body);
  body.writeUInt32BE(RECORD_SIZE, SALT_BYTES);
  body.writeUInt8(POINT_BYTES, SALT_BYTES + 4);
  point.copy(body, SALT_BYTES + 5);
}

/** Generates random bytes for many salts at once; a salt is valid until the next call. */
function createSaltGenerator(): () => Buffer {
  const randomPool = randomBytes(SALT_BYTES * 256);
  let offset = 0;
  return () => {
    if (offset === randomPool.length) {
      randomFillSync(randomPool);
      offset = 0;
    }
    offset += SALT_BYTES;
    return randomPool.subarray(offset - SALT_BYTES, offset);
  };
}

/** Length of a block of SHA-256. */
const BLOCK_BYTES = 64;
/** Length of a hash of SHA-256. */
const HASH_BYTES = 32;
const INNER_PAD_BYTE = 0x36;
const OUTER_PAD_BYTE = 0x5c;
/** Maximum length of a message whose HMAC is computed. */
const MAX_MESSAGE_BYTES = 256;
const innerBlock = Buffer.alloc(BLOCK_BYTES + MAX_MESSAGE_BYTES);
const outerBlock = Buffer.alloc(BLOCK_BYTES + HASH_BYTES);

/**
 * Computes HMAC-SHA-256 (RFC 2104) with two one-shot hashes: a fraction of createHmac's cost for a key used once.
 *
 * @param key at most 64 bytes
 * @param message at most 256 bytes
 */
function hmac(key: Buffer, message: Buffer): Buffer {
  innerBlock.fill(INNER_PAD_BYTE, 0, BLOCK_BYTES);
  outerBlock.fill(OUTER_PAD_BYTE, 0, BLOCK_BYTES);
  for (let index = 0; index < key.length; index += 1) {
    const byte = key[index] ?? 0;
    innerBlock[index] = byte ^ INNER_PAD_BYTE;
    outerBlock[index] = byte ^ OUTER_PAD_BYTE;
  }
  message.copy(innerBlock, BLOCK_BYTES);
  // As a string: creating a buffer costs more than writing its bytes again.
  const innerHash = hash('sha256', innerBlock.subarray(0, BLOCK_BYTES + message.length), 'binary');
  outerBlock.write(innerHash, BLOCK_BYTES, 'latin1');
  return hash('sha256', outerBlock, 'buffer');
}
