import { createDecipheriv, createECDH, hkdfSync } from 'node:crypto';

const SALT_BYTES = 16;
/** Length of the header before the sender's key (RFC 8188, 2.1). */
const HEADER_BYTES = SALT_BYTES + 5;
const TAG_BYTES = 16;
/** The delimiter of the last record (RFC 8188, 2). */
const LAST_RECORD = 2;

/** The keys of a browser's subscription (RFC 8291, 2). */
export interface BrowserKeys {
  /** Uncompressed P-256 point, 65 bytes. */
  publicKey: Buffer;
  privateKey: Buffer;
  /** 16 bytes. */
  auth: Buffer;
}

/** Creates the keys of a new subscription. */
export function makeBrowserKeys(random: (bytes: number) => Buffer): BrowserKeys {
  const pair = createECDH('prime256v1');
  const publicKey = pair.generateKeys();
  return { publicKey, privateKey: pair.getPrivateKey(), auth: random(16) };
}

/**
 * Decrypts the body of a push as a browser does (RFC 8291, 3.4; one record, RFC 8188).
 *
 * @returns the text; undefined when it can't be decrypted with these keys
 */
export function decrypt(body: Buffer, keys: BrowserKeys): string | undefined {
  try {
    return decryptRecord(body, keys);
  } catch {
    return undefined;
  }
}

function decryptRecord(body: Buffer, { publicKey, privateKey, auth }: BrowserKeys): string {
  const salt = body.subarray(0, SALT_BYTES);
  const headerEnd = HEADER_BYTES + body.readUInt8(HEADER_BYTES - 1);
  const senderKey = body.subarray(HEADER_BYTES, headerEnd);
  const pair = createECDH('prime256v1');
  pair.setPrivateKey(privateKey);
  const shared = pair.computeSecret(senderKey);
  const keyInfo = Buffer.concat([Buffer.from('WebPush: info\0'), publicKey, senderKey]);
  const secret = derive(shared, auth, keyInfo, 32);
  const key = derive(secret, salt, 'Content-Encoding: aes128gcm\0', 16);
  const nonce = derive(secret, salt, 'Content-Encoding: nonce\0', 12);
  const decipher = createDecipheriv('aes-128-gcm', key, nonce);
  decipher.setAuthTag(body.subarray(-TAG_BYTES));
  const padded = Buffer.concat([
    decipher.update(body.subarray(headerEnd, -TAG_BYTES)),
    decipher.final(),
  ]);
  const end = padded.lastIndexOf(LAST_RECORD);
  if (end < 0) throw new Error('the record has no delimiter');
  return padded.toString('utf8', 0, end);
}

function derive(secret: Buffer, salt: Buffer, info: string | Buffer, bytes: number): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, salt, info, bytes));
}
