import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  type KeyObject,
  randomBytes,
} from 'node:crypto';

/** Keys that encrypt provider secrets, newest first: the first one seals, all of them unseal. */
export type SealingKeys = readonly { id: number; key: KeyObject }[];

/** A sealed text: AES-256-GCM with the key of this id, base64. */
export interface Sealed {
  key: number;
  nonce: string;
  text: string;
  tag: string;
}

const CIPHER = 'aes-256-gcm';
/** Length of a nonce: 96 bits (NIST SP 800-38D, 8.2.1). */
const NONCE_BYTES = 12;

/** Parses `1:<64 hex>,0:<64 hex>`. @throws Error on any other form, and if two keys have the same id */
export function parseSealingKeys(text: string): SealingKeys {
  const keys = text.split(',').map(parseSealingKey);
  if (new Set(keys.map(({ id }) => id)).size < keys.length) {
    throw new Error('each sealing key needs a unique id');
  }
  return keys;
}

function parseSealingKey(entry: string): SealingKeys[number] {
  const match = /^(\d{1,3}):([0-9a-f]{64})$/i.exec(entry.trim());
  if (match?.[1] === undefined || match[2] === undefined) {
    throw new Error('sealing keys are written as <id>:<64 hex characters>');
  }
  return { id: Number(match[1]), key: createSecretKey(Buffer.from(match[2], 'hex')) };
}

/** Seals a text. @param associatedData identity of the text's owner; unsealing requires the same value */
export function seal(keys: SealingKeys, associatedData: string, text: string): Sealed {
  const [newestKey] = keys;
  if (newestKey === undefined) throw new Error('there is no sealing key');
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, newestKey.key, nonce).setAAD(Buffer.from(associatedData));
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return {
    key: newestKey.id,
    nonce: nonce.toString('base64'),
    text: sealed.toString('base64'),
    tag: cipher.getAuthTag().toString('base64'),
  };
}

/** Unseals a text. @throws Error if its key is unknown, its data was changed or `associatedData` differs */
export function unseal(keys: SealingKeys, associatedData: string, sealed: Sealed): string {
  const sealingKey = keys.find(({ id }) => id === sealed.key);
  if (sealingKey === undefined) throw new Error(`there is no sealing key ${sealed.key}`);
  const decipher = createDecipheriv(CIPHER, sealingKey.key, Buffer.from(sealed.nonce, 'base64'), {
    authTagLength: 16,
  })
    .setAAD(Buffer.from(associatedData))
    .setAuthTag(Buffer.from(sealed.tag, 'base64'));
  const text = Buffer.concat([
    decipher.update(Buffer.from(sealed.text, 'base64')),
    decipher.final(),
  ]);
  return text.toString('utf8');
}
