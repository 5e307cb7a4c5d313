import { LIMITS } from '@carillon/core/limits';
import type { SealingKeys } from '@carillon/core/sealing';
import type { AppSettings } from '@carillon/store/apps';
import type { AppDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { AdminError } from './admin-error.ts';
import { verifyWebPush } from './credential/web-push.ts';
import { saveCredential } from './credentials.ts';
import { createKey } from './keys.ts';
import { type Page, type PageQuery, toPage } from './page.ts';
import { requireApp } from './require-app.ts';

/** Bundle id: the characters that Apple allows, and the maximum length of the HTTP API. */
const BUNDLE_ID = /^(?=.{1,155}$)[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*$/;
const HOST_NAME = /^(?=.{1,253}$)([0-9a-z_-]{1,63}(\.[0-9a-z_-]{1,63})*|\[[0-9a-f:.]+\])$/;

/** App with its settings as operators see it. */
export type AppView = ReturnType<typeof toAppView>;

/**
 * Creates an app with its first Secret API Key and a key pair for Web Push.
 *
 * @param secrets the HMAC key of API keys' digests, and the keys that seal credentials
 * @returns the app's id and the API key, of which this is the only copy
 * @throws AdminError ACCOUNT_NOT_FOUND
 */
export async function createApp(
  store: Pick<Store, 'accounts' | 'apps' | 'keys' | 'credentials' | 'batchTable'>,
  { pepper, sealingKeys }: { pepper: string; sealingKeys: SealingKeys },
  { name, account }: { name: string; account: string },
): Promise<{ id: string; apiKey: string }> {
  if ((await store.accounts.find(account)) === undefined) {
    throw new AdminError('ACCOUNT_NOT_FOUND', `There is no account ${account}.`);
  }
  const id = await store.apps.create(name, account);
  await saveCredential(store, sealingKeys, { app: id, channel: 'web-push' }, verifyWebPush({}));
  return { id, apiKey: (await createKey(store, pepper, id)).apiKey };
}

/**
 * Returns an app with its settings.
 *
 * @throws AdminError APP_NOT_FOUND
 */
export async function getApp(store: Pick<Store, 'apps'>, id: string): Promise<AppView> {
  return toAppView(await requireApp(store, id));
}

/** Lists apps in order of id: those of one account, of some, or all. */
export async function listApps(
  { apps }: Pick<Store, 'apps'>,
  query: PageQuery & { account?: string | readonly string[] | undefined },
): Promise<Page<AppView>> {
  const found = await apps.list(query.account, query.cursor ?? '', query.limit);
  return toPage(found.map(toAppView), query, ({ id }) => id);
}

/**
 * Changes settings of an app; absent settings stay as they are, an empty list of names removes them.
 *
 * @throws AdminError APP_NOT_FOUND, NAME_TAKEN
 */
export async function updateAppSettings(
  { apps }: Pick<Store, 'apps'>,
  id: string,
  settings: AppSettings,
): Promise<AppView> {
  const updated = await apps.updateSettings(id, settings);
  if (updated === undefined) throw new AdminError('APP_NOT_FOUND', `There is no app ${id}.`);
  if (updated !== 'taken') return toAppView(updated);
  throw new AdminError('NAME_TAKEN', 'This bundle id or host name belongs to another app.');
}

/**
 * Pauses an app or ends its pause. Deliveries of a paused app wait; its pushes are accepted and expire as always, and
 * what the inboxes of its devices hold already is replayed. Processes know within seconds.
 *
 * @throws AdminError APP_NOT_FOUND
 */
export async function setAppPaused(
  { apps }: Pick<Store, 'apps'>,
  id: string,
  paused: boolean,
): Promise<AppView> {
  const app = await (paused ? apps.pause(id) : apps.resume(id));
  if (app === undefined) throw new AdminError('APP_NOT_FOUND', `There is no app ${id}.`);
  return toAppView(app);
}

function toAppView(app: AppDocument) {
  return {
    id: app._id,
    account: app.account,
    name: app.name,
    payloadLimit: app.payloadLimit ?? LIMITS.payloadCharacters,
    dataString: app.dataString ?? false,
    registration: app.registrationClosed === true ? ('closed' as const) : ('open' as const),
    /** New devices per hour; null means unlimited. */
    registrationsPerHour:
      app.registrationsPerHour === undefined
        ? LIMITS.registrationsPerAppHour
        : app.registrationsPerHour,
    /** Seconds until a push that is not acknowledged over MQTT is sent over FCM; `first` means at once, and instead. */
    fcmFallback: app.fcm ?? ('off' as const),
    /** Messages of FCM show `title` and `message` of the payload as a notification. */
    fcmNotification: app.fcmNotification ?? false,
    bundleIds: app.bundleIds ?? [],
    webHosts: app.webHosts ?? [],
    /** Days after which devices that were not seen are deleted; null means never. */
    pruneAfterDays: app.pruneAfterDays ?? null,
    /** Its deliveries wait. */
    paused: app.pausedAt !== undefined,
    createdAt: app.createdAt.toISOString(),
  };
}

/**
 * Validates the bundle id of an iOS app.
 *
 * @throws AdminError INVALID_BUNDLE_ID
 */
export function normalizeBundleId(text: string): string {
  if (BUNDLE_ID.test(text)) return text;
  throw new AdminError(
    'INVALID_BUNDLE_ID',
    `"${text}" is not a bundle id. A bundle id consists of letters, digits and hyphens separated by dots, such as com.example.app.`,
  );
}

/**
 * Validates a site's host name and returns it as browsers write it: lower case, international names in ASCII.
 *
 * @throws AdminError INVALID_WEB_HOST
 */
export function normalizeWebHost(text: string): string {
  const isBare = !/[/?#@\\\s%]/.test(text) && (text.startsWith('[') || !text.includes(':'));
  const url = `https://${text}`;
  const host = isBare && URL.canParse(url) ? new URL(url).host : '';
  if (HOST_NAME.test(host)) return host;
  throw new AdminError(
    'INVALID_WEB_HOST',
    `"${text}" is not a host name. Write it without scheme, port, path and asterisk, such as www.example.com.`,
  );
}
