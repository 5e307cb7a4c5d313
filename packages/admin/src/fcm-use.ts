import { usesFcmForAndroid } from '@carillon/store/apps';
import type { AppDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { requireApp } from './require-app.ts';

/** Apps that are read at once. */
const APPS_PER_READ = 1_000;
/** Maximum apps that a text names. */
const MAX_LISTED = 5;

const TURN_ON =
  'Android phones that have never connected over MQTT get no push until they do: carillon app set ID --fcm-fallback 30';
const SET_CREDENTIAL = 'nothing is sent over FCM: carillon credential fcm --app ID';

/**
 * Describes what is missing so that an app's Android devices get pushes over FCM.
 *
 * @returns undefined if nothing is: the app uses FCM and has a credential, or has neither, or has no phone that goes by FCM
 */
export async function describeFcmGap(
  { credentials, devices }: Pick<Store, 'credentials' | 'devices'>,
  app: Pick<AppDocument, '_id' | 'fcm'>,
): Promise<string | undefined> {
  const isUsed = usesFcmForAndroid(app);
  if ((await credentials.has(app._id, 'fcm')) === isUsed) return undefined;
  if (isUsed) return `FCM is on for Android without a credential, so ${SET_CREDENTIAL}`;
  const [affected] = await devices.filterWithPhonesByFcm([app._id], 1);
  return affected === undefined ? undefined : `FCM is off for the app, so ${TURN_ON}`;
}

/**
 * Adds what is missing for FCM to the view of a change of an app.
 *
 * @throws AdminError APP_NOT_FOUND
 */
export async function withFcmWarning<View extends object>(
  store: Pick<Store, 'apps' | 'credentials' | 'devices'>,
  app: string,
  view: View,
): Promise<View & { warning?: string }> {
  const warning = await describeFcmGap(store, await requireApp(store, app));
  return { ...view, ...(warning !== undefined && { warning }) };
}

/**
 * Checks the use of FCM of all apps.
 *
 * @returns that no app lacks anything, or which apps do not use FCM though they have a credential and phones that go by it
 * @throws Error when an app uses FCM without a credential
 */
export async function checkFcmUse({
  apps,
  credentials,
  devices,
}: Pick<Store, 'apps' | 'credentials' | 'devices'>): Promise<string> {
  const withCredential = new Set<string>();
  for await (const { app } of credentials.iterateOf('fcm')) withCredential.add(app);
  const [unused, lacking]: [string[], string[]] = [[], []];
  for await (const app of iterateApps(apps)) {
    const isUsed = usesFcmForAndroid(app);
    if (isUsed && !withCredential.has(app._id)) lacking.push(app._id);
    if (!isUsed && withCredential.has(app._id)) unused.push(app._id);
  }
  const affected = await devices.filterWithPhonesByFcm(unused, MAX_LISTED + 1);
  const texts = [
    ...(lacking.length > 0
      ? [`on for ${listSome(lacking)} without a credential, so ${SET_CREDENTIAL}`]
      : []),
    ...(affected.length > 0 ? [`off for ${listSome(affected)}, so ${TURN_ON}`] : []),
  ];
  if (lacking.length > 0) throw new Error(texts.join('; '));
  return texts[0] ?? 'each app that needs it has it';
}

async function* iterateApps({ list }: Pick<Store['apps'], 'list'>): AsyncGenerator<AppDocument> {
  for (let after: string | undefined = ''; after !== undefined; ) {
    const found: AppDocument[] = await list(undefined, after, APPS_PER_READ);
    yield* found;
    after = found.length === APPS_PER_READ ? found.at(-1)?._id : undefined;
  }
}

function listSome(apps: readonly string[]): string {
  const more = apps.length > MAX_LISTED ? ' and more' : '';
  return `${apps.slice(0, MAX_LISTED).join(', ')}${more}`;
}
