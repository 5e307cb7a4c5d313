import { createECDH, timingSafeEqual } from 'node:crypto';
import { providerSecret, type SecretOf } from '@carillon/core/channels';
import { type SealingKeys, unseal } from '@carillon/core/sealing';
import { chooseContact, findContactFault } from '@carillon/core/web-push-contact';
import type { CredentialDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { AdminError, invalidCredential } from '../admin-error.ts';
import {
  type CredentialFile,
  type CredentialView,
  replaceCredential,
  saveCredential,
  type VerifiedCredential,
} from '../credentials.ts';
import { requireApp } from '../require-app.ts';

const CHANNEL = 'web-push';
const CURVE = 'prime256v1';
/** Contact of a key pair without one: requests are signed with that of the deployment instead, if it has one. */
const NO_CONTACT = 'mailto:push@carillon.invalid';

/** Key pair for Web Push as an operator provides it; a new pair is generated when both keys are absent. */
export interface WebPushOptions {
  /** Base64url; needs the private key. */
  publicKey?: string;
  /** File that contains the private key, base64url. */
  privateKey?: CredentialFile;
  /** A contact that push services accept (core/web-push-contact). */
  contact?: string;
}

interface KeyPair {
  publicKey: string;
  privateKey: string;
}

/**
 * Sets an app's key pair for Web Push, or the contact of the existing pair. A subscription is bound to the public
 * key it was created with (RFC 8292, section 4), so an existing pair is replaced only on explicit request.
 *
 * @param replace replaces an existing pair, but not its contact: all browsers must subscribe again
 * @throws AdminError APP_NOT_FOUND, INVALID_CREDENTIAL, KEY_PAIR_EXISTS, CONCURRENT_CHANGE
 */
export async function saveWebPush(
  store: Pick<Store, 'apps' | 'credentials' | 'batchTable'>,
  keys: SealingKeys,
  app: string,
  { replace = false, ...options }: WebPushOptions & { replace?: boolean },
): Promise<CredentialView> {
  await requireApp(store, app);
  const current = await store.credentials.find({ app, channel: CHANNEL });
  if (current === undefined || replace) {
    const contact = options.contact ?? chooseContact(current?.about.contact, undefined);
    const verified = verifyWebPush({ ...options, ...(contact !== undefined && { contact }) });
    return saveCredential(store, keys, { app, channel: CHANNEL }, verified);
  }
  requireSameKeyPair(current, options);
  if (options.contact === undefined) {
    throw new AdminError(
      'KEY_PAIR_EXISTS',
      'The app already has this key pair. Give a contact to change its contact, or replace the pair: all browsers must then subscribe again.',
      'contact',
      'replace',
    );
  }
  const updated = withContact(unsealSecret(keys, current), options.contact);
  const saved = await replaceCredential(store, keys, current, updated);
  if (saved !== undefined) return saved;
  throw new AdminError(
    'CONCURRENT_CHANGE',
    'Another command changed the key pair at the same time. Check it and try again.',
  );
}

function requireSameKeyPair(current: CredentialDocument, options: WebPushOptions): void {
  if (options.privateKey === undefined && options.publicKey === undefined) return;
  if (verifyWebPush(options).about.publicKey === current.about.publicKey) return;
  throw new AdminError(
    'KEY_PAIR_EXISTS',
    'The app already has another key pair, and browsers that subscribed with it would receive no more pushes. Confirm that the pair is to be replaced.',
    'replace',
  );
}

/**
 * Verifies a key pair for Web Push (RFC 8292), or generates one.
 *
 * @throws AdminError INVALID_CREDENTIAL
 */
export function verifyWebPush({
  publicKey,
  privateKey,
  contact,
}: WebPushOptions): VerifiedCredential {
  const keyPair =
    privateKey === undefined ? generateKeyPair(publicKey) : readKeyPair(publicKey, privateKey);
  return withContact(keyPair, contact);
}

function withContact(
  { publicKey, privateKey }: KeyPair,
  given: string | undefined,
): VerifiedCredential {
  const fault = given === undefined ? undefined : findContactFault(given);
  if (fault !== undefined) throw invalidCredential(fault, 'contact');
  const contact = given ?? NO_CONTACT;
  return {
    channel: CHANNEL,
    secret: { kind: CHANNEL, publicKey, privateKey, contact },
    about: { publicKey, contact },
  };
}

function generateKeyPair(publicKey: string | undefined): KeyPair {
  if (publicKey !== undefined) {
    throw invalidCredential('A public key needs its private key.', 'privateKey');
  }
  const ecdh = createECDH(CURVE);
  ecdh.generateKeys();
  return toKeyPair(ecdh);
}

function readKeyPair(publicKey: string | undefined, { name, content }: CredentialFile): KeyPair {
  const ecdh = createECDH(CURVE);
  try {
    ecdh.setPrivateKey(Buffer.from(content.toString('utf8').trim(), 'base64'));
  } catch {
    throw invalidCredential(`${name} does not contain a private key of 32 bytes in base64url.`);
  }
  if (publicKey !== undefined && !isSameKey(publicKey, ecdh.getPublicKey())) {
    throw invalidCredential('The public key does not belong to this private key.');
  }
  return toKeyPair(ecdh);
}

function toKeyPair(ecdh: ReturnType<typeof createECDH>): KeyPair {
  const privateKey = Buffer.alloc(32);
  const scalar = ecdh.getPrivateKey();
  // ECDH omits leading zeros, which the key's encoding includes.
  scalar.copy(privateKey, privateKey.length - scalar.length);
  return {
    publicKey: ecdh.getPublicKey('base64url'),
    privateKey: privateKey.toString('base64url'),
  };
}

function isSameKey(text: string, point: Buffer): boolean {
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === point.length && timingSafeEqual(bytes, point);
}

function unsealSecret(
  keys: SealingKeys,
  { _id, secret }: CredentialDocument,
): SecretOf<typeof CHANNEL> {
  const unsealed = providerSecret.parse(JSON.parse(unseal(keys, _id, secret)));
  if (unsealed.kind !== CHANNEL) throw new Error(`${_id} contains no key pair`);
  return unsealed;
}
