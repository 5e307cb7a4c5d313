import { type BoxKey, boxKeyOf, openBox, type SealedBox, sealBox } from '@carillon/core/sealed-box';
import { type Sealed, type SealingKeys, seal, unseal } from '@carillon/core/sealing';
import type { CredentialDocument, WebhookDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import type { WebhookStore } from '@carillon/webhooks/webhook-store';

/** Result of sealing the credentials of all apps again. */
export interface ResealResult {
  /** The id of the key that seals them now. */
  key: number;
  /** Number of credentials that were sealed again. */
  resealed: number;
  /** Number of credentials that already had that key, or were removed meanwhile. */
  unchanged: number;
  /** Ids of the credentials that none of the keys opens. */
  failed: string[];
}

type ResealOutcome = 'resealed' | 'unchanged' | 'failed';

/**
 * Seals the credentials and webhooks of all apps again under the first key. Each write is conditional on the credential being
 * unchanged, so a run can be interrupted, repeated, and run at the same time as another.
 */
export async function resealCredentials(
  store: Pick<Store, 'credentials'> & Pick<WebhookStore, 'webhooks'>,
  keys: SealingKeys,
): Promise<ResealResult> {
  const result: ResealResult = { key: keys[0]?.id ?? 0, resealed: 0, unchanged: 0, failed: [] };
  for await (const document of store.credentials.iterateAll()) {
    const outcome = await resealOne(store, keys, document);
    if (outcome === 'failed') result.failed.push(document._id);
    else result[outcome] += 1;
  }
  const boxKey = boxKeyOf(keys);
  // First, so that no webhook is sealed for an older key afterwards.
  await store.webhooks.putBoxKey(boxKey);
  for await (const document of store.webhooks.iterateAll()) {
    const outcome = await resealWebhook(store, keys, boxKey, document);
    if (outcome === 'failed') result.failed.push(`webhook ${document._id}`);
    else result[outcome] += 1;
  }
  result.failed.sort();
  return result;
}

async function resealOne(
  { credentials }: Pick<Store, 'credentials'>,
  keys: SealingKeys,
  document: CredentialDocument,
): Promise<ResealOutcome> {
  let current: CredentialDocument | undefined = document;
  while (current !== undefined) {
    const sealed = resealSecret(keys, current);
    if (sealed === undefined) return 'failed';
    if (current.secret.key === sealed.key) return 'unchanged';
    if (await credentials.reseal(current, sealed)) return 'resealed';
    // Changed meanwhile, possibly by a command that has only the older keys.
    current = await credentials.find(current);
  }
  return 'unchanged';
}

async function resealWebhook(
  { webhooks }: Pick<WebhookStore, 'webhooks'>,
  keys: SealingKeys,
  boxKey: BoxKey,
  document: WebhookDocument,
): Promise<ResealOutcome> {
  let current: WebhookDocument | undefined = document;
  while (current !== undefined) {
    const { _id, address, secrets } = current;
    const boxes = [address, ...secrets.map(({ sealed }) => sealed)];
    if (boxes.every(({ key }) => key === boxKey.id)) return 'unchanged';
    const resealed = resealTexts(keys, boxKey, current);
    if (resealed === undefined) return 'failed';
    if (await webhooks.reseal(current, resealed)) return 'resealed';
    current = await webhooks.find(_id);
  }
  return 'unchanged';
}

/** Returns undefined when no key opens one of the texts. */
function resealTexts(
  keys: SealingKeys,
  boxKey: BoxKey,
  { _id, address, secrets }: WebhookDocument,
): Pick<WebhookDocument, 'address' | 'secrets'> | undefined {
  const resealBox = (box: SealedBox) => sealBox(boxKey, _id, openBox(keys, _id, box));
  try {
    return {
      address: resealBox(address),
      secrets: secrets.map((secret) => ({ ...secret, sealed: resealBox(secret.sealed) })),
    };
  } catch {
    return undefined;
  }
}

/** Returns undefined when no key opens the secret, also when the secret carries the first key's id. */
function resealSecret(keys: SealingKeys, { _id, secret }: CredentialDocument): Sealed | undefined {
  try {
    return seal(keys, _id, unseal(keys, _id, secret));
  } catch {
    return undefined;
  }
}
