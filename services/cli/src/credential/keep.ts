import type { Gateway, ProviderChannelName } from '@carillon/core/credentials';
import { type SealingKeys, seal } from '@carillon/core/sealing';
import { type CredentialPlace, credentialId } from '@carillon/store/credentials';
import type { AppleEnvironment, CredentialDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import type { Checked } from './checked.ts';

/** Which credential of an app. */
export interface Place {
  app: string;
  channel: ProviderChannelName;
  environment?: AppleEnvironment;
}

/** The same for the store, without what else options hold. */
export function placeOf({ app, channel, environment }: Place): CredentialPlace {
  return { app, channel, ...(environment !== undefined && { environment }) };
}

/** Seals and keeps a credential, and has what waited for it tried at once. */
export async function keepCredential(
  store: Store,
  keys: SealingKeys,
  where: Place,
  { secret, about }: Checked,
  gateway?: Gateway,
): Promise<CredentialDocument> {
  const place = placeOf(where);
  const text = JSON.stringify({ ...secret, ...(gateway !== undefined && { gateway }) });
  const shown = gateway && { gateway: `${gateway.host}:${gateway.port}` };
  const sealed = seal(keys, credentialId(place), text);
  const kept = await store.credentials.put(place, sealed, { ...about, ...shown });
  await store.work.hurry(place.app, place.channel);
  return kept;
}

/** A credential as it is shown: never the secret. */
export function viewOf({
  _id,
  app,
  channel,
  environment,
  about,
  changedAt,
  refused: no,
}: CredentialDocument) {
  return {
    id: _id,
    app,
    channel,
    ...(environment !== undefined && { environment }),
    ...about,
    changedAt: changedAt.toISOString(),
    ...(no !== undefined && { refused: { detail: no.detail, at: no.at.toISOString() } }),
  };
}

/** The same for a person. */
export function linesOf(document: CredentialDocument): string[] {
  const { id, app: _app, channel: _channel, refused: no, ...facts } = viewOf(document);
  const words = Object.entries(facts).map(([name, value]) => `${name} ${value}`);
  return [
    `${id}: ${words.join(', ')}`,
    ...(no === undefined ? [] : [`  refused by the provider at ${no.at}: ${no.detail}`]),
  ];
}
