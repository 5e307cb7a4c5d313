import {
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
} from 'node:crypto';
import { type Sealed, type SealingKeys, seal, unseal } from './sealing.ts';

/** A text that was sealed with a public key: only holders of the sealing keys can read it. */
export interface SealedBox extends Sealed {
  /** The sender's ephemeral public key, SPKI, base64. */
  from: string;
}

/** The public key that texts are sealed with; it is derived from a sealing key and is no secret. */
export interface BoxKey {
  /** Id of the sealing key. */
  id: number;
  /** X25519 public key, SPKI, base64. */
  publicKey: string;
}

/** PKCS #8 header of an X25519 private key (RFC 8410). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b656e04220420', 'hex');
const KEY_BYTES = 32;

/** Returns the public key of the newest sealing key. */
export function boxKeyOf(keys: SealingKeys): BoxKey {
  const [newest] = keys;
  if (newest === undefined) throw new Error('there is no sealing key');
  return { id: newest.id, publicKey: exportPublic(createPublicKey(privateKeyOf(newest.key))) };
}

/** Seals a text with a public key. @param associatedData identity of the text's owner; opening requires the same value */
export function sealBox(
  { id, publicKey }: BoxKey,
  associatedData: string,
  text: string,
): SealedBox {
  const ephemeral = generateKeyPairSync('x25519');
  const from = exportPublic(ephemeral.publicKey);
  const shared = sharedKey(ephemeral.privateKey, importPublic(publicKey), [from, publicKey]);
  return { ...seal([{ id, key: shared }], associatedData, text), from };
}

/** Opens a text. @throws Error if its key is unknown, its data was changed or `associatedData` differs */
export function openBox(keys: SealingKeys, associatedData: string, box: SealedBox): string {
  const sealingKey = keys.find(({ id }) => id === box.key);
  if (sealingKey === undefined) throw new Error(`there is no sealing key ${box.key}`);
  const privateKey = privateKeyOf(sealingKey.key);
  const own = exportPublic(createPublicKey(privateKey));
  const shared = sharedKey(privateKey, importPublic(box.from), [box.from, own]);
  return unseal([{ id: box.key, key: shared }], associatedData, box);
}

function privateKeyOf(sealingKey: KeyObject): KeyObject {
  const bytes = hkdfSync('sha256', sealingKey, '', 'carillon box key', KEY_BYTES);
  const key = Buffer.concat([PKCS8_PREFIX, Buffer.from(bytes)]);
  return createPrivateKey({ key, format: 'der', type: 'pkcs8' });
}

/** Derives the key of one text; both public keys are part of it, as in HPKE (RFC 9180). */
function sharedKey(privateKey: KeyObject, publicKey: KeyObject, parties: string[]): KeyObject {
  const secret = diffieHellman({ privateKey, publicKey });
  const bytes = hkdfSync('sha256', secret, '', `carillon box ${parties.join(' ')}`, KEY_BYTES);
  return createSecretKey(Buffer.from(bytes));
}

function exportPublic(key: KeyObject): string {
  return key.export({ format: 'der', type: 'spki' }).toString('base64');
}

function importPublic(text: string): KeyObject {
  return createPublicKey({ key: Buffer.from(text, 'base64'), format: 'der', type: 'spki' });
}
