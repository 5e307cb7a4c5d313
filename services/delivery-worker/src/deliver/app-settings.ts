import type { FcmUse } from '@carillon/core/channels/fcm';
import type { Store } from '@carillon/store/store';
import { LRUCache } from 'lru-cache';

const SETTINGS_TTL_MS = 5_000;
const MAX_CACHED_APPS = 1_000;

/** Settings of an app that deliveries need. */
export interface AppSettings {
  /** Use of FCM for Android devices; undefined means none. */
  fcm: FcmUse | undefined;
  /** The app has a credential for FCM. */
  hasFcm: boolean;
  /** Messages of FCM show a notification. */
  hasFcmNotification: boolean;
  /** An iOS device of the app has held an MQTT connection. */
  isIosOverMqtt: boolean;
}

/** Reads the settings of an app, at most a few seconds old. */
export type GetAppSettings = (app: string) => Promise<AppSettings>;

/** Creates a cache of app settings; concurrent requests for an app share one query. */
export function createAppSettings({
  apps,
  credentials,
}: Pick<Store, 'apps' | 'credentials'>): GetAppSettings {
  const cache = new LRUCache<string, Promise<AppSettings>>({
    max: MAX_CACHED_APPS,
    ttl: SETTINGS_TTL_MS,
  });
  async function load(app: string): Promise<AppSettings> {
    const [settings, hasFcm] = await Promise.all([apps.find(app), credentials.has(app, 'fcm')]);
    return {
      fcm: settings?.fcm ?? undefined,
      hasFcm,
      hasFcmNotification: settings?.fcmNotification === true,
      isIosOverMqtt: settings?.iosOverMqtt === true,
    };
  }
  return (app) => {
    const cached = cache.get(app);
    if (cached !== undefined) return cached;
    const loading = load(app);
    cache.set(app, loading);
    loading.catch(() => {
      if (cache.peek(app) === loading) cache.delete(app);
    });
    return loading;
  };
}
