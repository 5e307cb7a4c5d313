import type { ProviderChannelName, ProviderSecret } from '@carillon/core/channels';
import type { AppleEnvironment } from '@carillon/core/channels/apns';
import type { HostOverride } from '@carillon/core/channels/descriptor';
import { isTokenServerAllowed } from '@carillon/core/channels/fcm';
import { type SealingKeys, seal } from '@carillon/core/sealing';
import { CONTACT_HINT, chooseContact } from '@carillon/core/web-push-contact';
import { type CredentialKey, credentialId } from '@carillon/store/credentials';
import type { CredentialDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { AdminError, invalidCredential } from './admin-error.ts';
import { describeFcmGap } from './fcm-use.ts';
import { requireApp } from './require-app.ts';

/** Credential that passed every check that is possible without the provider. */
export interface VerifiedCredential {
  channel: ProviderChannelName;
  secret: ProviderSecret;
  /** The parts that may be shown. */
  about: Record<string, string>;
}

/** File that an operator provides: its name as the operator knows it, for messages, and its content. */
export interface CredentialFile {
  name: string;
  content: Buffer;
}

/** Identifies one of an app's credentials; further properties are ignored. */
export interface CredentialKeyInput {
  app: string;
  channel: ProviderChannelName;
  environment?: AppleEnvironment;
}

/** Credential as operators see it, never with its secret; the properties of `about` are spread into it. */
export type CredentialView = ReturnType<typeof toCredentialView> & {
  /** What an operator should change about it, or about its use. */
  warning?: string;
};

const CONTACT_WARNING = `no contact that Apple accepts, so Safari gets no push: ${CONTACT_HINT}`;

/**
 * Seals and saves a credential, and makes the batches that wait for it due at once.
 *
 * @param gateway reached instead of the provider's own address
 * @throws AdminError APP_NOT_FOUND, INVALID_CREDENTIAL if the secret names a token server that is not allowed
 */
export async function saveCredential(
  store: Pick<Store, 'apps' | 'credentials' | 'batchTable'>,
  keys: SealingKeys,
  keyInput: CredentialKeyInput,
  { secret, about }: VerifiedCredential,
  gateway?: HostOverride,
): Promise<CredentialView> {
  if (secret.kind === 'fcm' && !isTokenServerAllowed(secret.tokenUri, gateway)) {
    throw invalidCredential(
      'The token_uri must be the one that Google writes: https://oauth2.googleapis.com/token.',
    );
  }
  await requireApp(store, keyInput.app);
  const credentialKey = toCredentialKey(keyInput);
  const secretWithGateway = { ...secret, ...(gateway !== undefined && { gateway }) };
  const gatewayInfo = gateway && { gateway: `${gateway.host}:${gateway.port}` };
  const sealed = seal(keys, credentialId(credentialKey), JSON.stringify(secretWithGateway));
  const saved = await store.credentials.put(credentialKey, sealed, { ...about, ...gatewayInfo });
  await store.batchTable.retryNow(credentialKey.app, credentialKey.channel);
  return toCredentialView(saved);
}

/**
 * Replaces a credential that was read before.
 *
 * @returns undefined, with nothing changed, when the credential was changed since it was read
 */
export async function replaceCredential(
  store: Pick<Store, 'credentials' | 'batchTable'>,
  keys: SealingKeys,
  current: CredentialDocument,
  { secret, about }: VerifiedCredential,
): Promise<CredentialView | undefined> {
  const sealed = seal(keys, current._id, JSON.stringify(secret));
  const saved = await store.credentials.replace(current, sealed, about);
  if (saved === undefined) return undefined;
  await store.batchTable.retryNow(saved.app, saved.channel);
  return toCredentialView(saved);
}

/**
 * Lists the credentials of an app in order of id, that of Web Push with the contact that requests are signed with, and with
 * warnings.
 *
 * @param webPushContact the deployment's contact for push services
 * @throws AdminError APP_NOT_FOUND
 */
export async function listCredentials(
  store: Pick<Store, 'apps' | 'credentials' | 'devices'>,
  app: string,
  webPushContact: string | undefined,
): Promise<CredentialView[]> {
  const owner = await requireApp(store, app);
  const found = await store.credentials.list(app);
  const hasFcm = found.some(({ channel }) => channel === 'fcm');
  const fcmGap = hasFcm ? await describeFcmGap(store, owner) : undefined;
  return found.map((credential) => {
    const view = toCredentialView(credential);
    if (credential.channel === 'fcm' && fcmGap !== undefined) return { ...view, warning: fcmGap };
    if (credential.channel !== 'web-push') return view;
    const contact = chooseContact(credential.about.contact, webPushContact);
    return contact === undefined ? { ...view, warning: CONTACT_WARNING } : { ...view, contact };
  });
}

/**
 * Removes a credential.
 *
 * @throws AdminError CREDENTIAL_NOT_FOUND
 */
export async function removeCredential(
  { credentials }: Pick<Store, 'credentials'>,
  keyInput: CredentialKeyInput,
): Promise<{ id: string }> {
  const credentialKey = toCredentialKey(keyInput);
  if (await credentials.remove(credentialKey)) return { id: credentialId(credentialKey) };
  throw new AdminError('CREDENTIAL_NOT_FOUND', `App ${keyInput.app} has no such credential.`);
}

/** Drops further properties of the input, which the store would save. */
function toCredentialKey({ app, channel, environment }: CredentialKeyInput): CredentialKey {
  return { app, channel, ...(environment !== undefined && { environment }) };
}

function toCredentialView(document: CredentialDocument) {
  const { _id, app, channel, environment, about, changedAt, refused } = document;
  return {
    id: _id,
    app,
    channel,
    ...(environment !== undefined && { environment }),
    ...about,
    changedAt: changedAt.toISOString(),
    ...(refused !== undefined && {
      refused: {
        detail: refused.detail,
        at: refused.at.toISOString(),
        since: (refused.since ?? refused.at).toISOString(),
      },
    }),
  };
}
