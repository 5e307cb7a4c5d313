import { isPushId } from '@carillon/core/ids';
import { DEVICE_TOKEN } from '@carillon/core/limits';
import type { AppDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';

/** A push, a device or an app that a search found. */
export interface SearchResult {
  kind: 'push' | 'device' | 'app';
  id: string;
  label: string;
}

const MAX_RESULTS = 20;
/** Maximum apps in which a provider token is looked up: one index entry each. */
const MAX_APPS = 10_000;
const MIN_NAME_CHARACTERS = 2;
/** Minimum length of a text that is looked up as a provider address. */
const MIN_ADDRESS_CHARACTERS = 16;
/** Maximum length of a text that is looked up. */
const MAX_CHARACTERS = 4_096;

type FindStore = Pick<Store, 'apps' | 'pushes' | 'devices'>;

/**
 * Finds a push or an app by id, a device by its token or its provider's, and apps by a part of their name.
 *
 * @param accounts the accounts whose objects are found
 */
export async function findAnything(
  store: FindStore,
  q: string,
  accounts: readonly string[] | 'all',
): Promise<SearchResult[]> {
  const text = q.trim();
  if (text === '' || text.length > MAX_CHARACTERS) return [];
  const found = await Promise.all([
    findPush(store, text, accounts),
    findApps(store, text, accounts),
    findDevices(store, text, accounts),
  ]);
  return found.flat().slice(0, MAX_RESULTS);
}

async function findPush(
  store: FindStore,
  text: string,
  accounts: readonly string[] | 'all',
): Promise<SearchResult[]> {
  const push = isPushId(text) ? await store.pushes.inspect(text) : undefined;
  const app = push && (await findVisibleApp(store, push.app, accounts));
  return push === undefined || app === undefined
    ? []
    : [{ kind: 'push', id: text, label: `Push of ${app.name}` }];
}

async function findApps(
  store: FindStore,
  text: string,
  accounts: readonly string[] | 'all',
): Promise<SearchResult[]> {
  const app = isPushId(text) ? await findVisibleApp(store, text, accounts) : undefined;
  const isName = text.length >= MIN_NAME_CHARACTERS && text.length <= 100;
  const named = isName ? await store.apps.search(text, accounts, MAX_RESULTS) : [];
  const apps = [
    ...(app === undefined ? [] : [app]),
    ...named.filter(({ _id }) => _id !== app?._id),
  ];
  return apps.map(({ _id, name }) => ({ kind: 'app', id: _id, label: name }));
}

async function findDevices(
  store: FindStore,
  text: string,
  accounts: readonly string[] | 'all',
): Promise<SearchResult[]> {
  const device = DEVICE_TOKEN.test(text) ? await store.devices.find(text) : undefined;
  const isVisible =
    device?.deletedAt === undefined &&
    device !== undefined &&
    (await findVisibleApp(store, device.app, accounts)) !== undefined;
  const byAddress =
    text.length < MIN_ADDRESS_CHARACTERS
      ? []
      : await store.devices.findByAddress(
          await store.apps.listIds(accounts, MAX_APPS),
          text,
          MAX_RESULTS,
        );
  const devices = [...(isVisible ? [device] : []), ...byAddress];
  return devices.map(({ _id, platform }) => {
    return { kind: 'device', id: _id, label: `Device (${platform})` };
  });
}

async function findVisibleApp(
  { apps }: FindStore,
  id: string,
  accounts: readonly string[] | 'all',
): Promise<AppDocument | undefined> {
  const app = await apps.find(id);
  return app !== undefined && (accounts === 'all' || accounts.includes(app.account))
    ? app
    : undefined;
}
