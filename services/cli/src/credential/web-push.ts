import { createECDH, timingSafeEqual } from 'node:crypto';
import { refused } from '../failure.ts';
import { type Checked, readGiven } from './checked.ts';

/** The options of a key pair for Web Push. */
export interface WebPushOptions {
  publicKey?: string;
  privateKeyFile?: string;
  contact?: string;
}

const CURVE = 'prime256v1';
/** Push services want a way to reach the sender; an owner names a better one. */
const NO_CONTACT = 'mailto:push@carillon.invalid';
const CONTACT = /^(mailto:[^@\s]+@[^@\s]+|https:\/\/\S+)$/;

/**
 * A key pair for Web Push (RFC 8292): the one that is given, checked, or a new one.
 *
 * @throws Failure with the reason why it can't work
 */
export function checkWebPush({
  publicKey,
  privateKeyFile,
  contact = NO_CONTACT,
}: WebPushOptions): Checked {
  if (!CONTACT.test(contact)) throw refused('--contact must be a mailto: or an https: address.');
  const pair =
    privateKeyFile === undefined ? newPair(publicKey) : givenPair(publicKey, privateKeyFile);
  return {
    channel: 'web-push',
    secret: { kind: 'web-push', ...pair, contact },
    about: { publicKey: pair.publicKey, contact },
  };
}

interface Pair {
  publicKey: string;
  privateKey: string;
}

function newPair(publicKey: string | undefined): Pair {
  if (publicKey !== undefined) throw refused('A public key needs its --private-key-file.');
  const ecdh = createECDH(CURVE);
  ecdh.generateKeys();
  return pairOf(ecdh);
}

function givenPair(publicKey: string | undefined, file: string): Pair {
  const ecdh = createECDH(CURVE);
  try {
    ecdh.setPrivateKey(Buffer.from(readGiven(file).toString('utf8').trim(), 'base64'));
  } catch {
    throw refused(`${file} holds no private key of 32 bytes in base64url.`);
  }
  const pair = pairOf(ecdh);
  if (publicKey !== undefined && !isSame(publicKey, ecdh.getPublicKey())) {
    throw refused('The public key is not the one of this private key.');
  }
  return pair;
}

function pairOf(ecdh: ReturnType<typeof createECDH>): Pair {
  const privateKey = Buffer.alloc(32);
  const scalar = ecdh.getPrivateKey();
  // Leading zeros are left out by ECDH, but belong to the key's form.
  scalar.copy(privateKey, privateKey.length - scalar.length);
  return {
    publicKey: ecdh.getPublicKey('base64url'),
    privateKey: privateKey.toString('base64url'),
  };
}

function isSame(text: string, point: Buffer): boolean {
  const given = Buffer.from(text, 'base64');
  return given.length === point.length && timingSafeEqual(given, point);
}
