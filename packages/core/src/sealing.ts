import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  type KeyObject,
  randomBytes,
} from 'node:crypto';

/** Keys under which providers' secrets are kept, newest first: the first seals, all open. */
export type SealingKeys = readonly { id: number; key: KeyObject }[];

/** A sealed text: AES-256-GCM under the key of this id, base64. */
export interface Sealed {
  key: number;
  nonce: string;
  text: string;
  tag: string;
}

const CIPHER = 'aes-256-gcm';
/** NIST SP 800-38D, 8.2.1: 96 bits. */
const NONCE_BYTES = 12;

/** Parses `1:<64 hex>,0:<64 hex>`. @throws Error on any other form */
export function parseSealingKeys(text: string): SealingKeys {
  return text.split(',').map((entry) => {
    const match = /^(\d{1,3}):([0-9a-f]{64})$/i.exec(entry.trim());
    if (match?.[1] === undefined || match[2] === undefined) {
      throw new Error('sealing keys are written as <id>:<64 hex characters>');
    }
    return { id: Number(match[1]), key: createSecretKey(Buffer.from(match[2], 'hex')) };
  });
}

/** Seals a text. @param bound what it belongs to: under another one it can't be opened */
export function seal(keys: SealingKeys, bound: string, text: string): Sealed {
  const [newest] = keys;
  if (newest === undefined) throw new Error('there is no sealing key');
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, newest.key, nonce).setAAD(Buffer.from(bound));
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return {
    key: newest.id,
    nonce: nonce.toString('base64'),
    text: sealed.toString('base64'),
    tag: cipher.getAuthTag().toString('base64'),
  };
}

/** Opens a sealed text. @throws Error when its key is not among ours, or it was changed or belongs elsewhere */
export function unseal(keys: SealingKeys, bound: string, sealed: Sealed): string {
  const found = keys.find(({ id }) => id === sealed.key);
  if (found === undefined) throw new Error(`there is no sealing key ${sealed.key}`);
  const decipher = createDecipheriv(CIPHER, found.key, Buffer.from(sealed.nonce, 'base64'), {
    authTagLength: 16,
  })
    .setAAD(Buffer.from(bound))
    .setAuthTag(Buffer.from(sealed.tag, 'base64'));
  const text = Buffer.concat([
    decipher.update(Buffer.from(sealed.text, 'base64')),
    decipher.final(),
  ]);
  return text.toString('utf8');
}
