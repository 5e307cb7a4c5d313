import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import {
  createAccount,
  listAccounts,
  resumeAccount,
  setRequestLimit,
  suspendAccount,
} from '@carillon/admin/accounts';
import { AdminError } from '@carillon/admin/admin-error';
import {
  type AppView,
  createApp,
  getApp,
  listApps,
  setAppPaused,
  updateAppSettings,
} from '@carillon/admin/apps';
import { saveWebPush } from '@carillon/admin/credential/web-push';
import { listCredentials, removeCredential, saveCredential } from '@carillon/admin/credentials';
import { listDevicePushes } from '@carillon/admin/device-details';
import { listDevices } from '@carillon/admin/devices';
import { withFcmWarning } from '@carillon/admin/fcm-use';
import { createKey, listKeys, revokeKey } from '@carillon/admin/keys';
import type { PageQuery } from '@carillon/admin/page';
import { getPushOutcomes, getRecipientOutcome, listPushes } from '@carillon/admin/pushes';
import { requireApp } from '@carillon/admin/require-app';
import {
  changeWebhook,
  createWebhook,
  listWebhookDetails,
  removeWebhook,
  renewWebhookSecret,
  replayPushes,
  requestTestEvent,
  turnWebhookOff,
  turnWebhookOn,
} from '@carillon/admin/webhooks';
import { parseSealingKeys, type SealingKeys } from '@carillon/core/sealing';
import type { CommandStore } from '../database.ts';
import { requireSetting, type Stack } from '../stack.ts';
import type { Admin } from './admin.ts';

/** Makes the administrative work over the database. Keys of the stack are read where they are needed. */
export function createLocalAdmin(store: CommandStore, stack: Stack): Admin {
  const pepper = (): string => requireSetting(stack, 'pepper');
  const sealingKeys = (): SealingKeys => parseSealingKeys(requireSetting(stack, 'sealingKeys'));
  return {
    createAccount: (name, plan) => createAccount(store, name, plan),
    listAccounts: (query) => listAccounts(store, query),
    setRequestLimit: (id, limit) => setRequestLimit(store, id, limit),
    suspendAccount: (id) => suspendAccount(store, id),
    resumeAccount: (id) => resumeAccount(store, id),

    async createApp(app) {
      // Read before the app is created: a failure would leave an app without a key.
      const secrets = { pepper: pepper(), sealingKeys: sealingKeys() };
      return createApp(store, secrets, app);
    },
    getApp: (id) => getApp(store, id),
    listApps: (query) => listApps(store, query),
    async updateAppSettings(id, settings) {
      const view = await updateAppSettings(store, id, settings);
      return settings.fcm === undefined ? view : withFcmWarning(store, id, view);
    },
    setAppPaused: (id, paused) => changePause(store, id, paused),

    createKey: async (app) => createKey(store, pepper(), app),
    listKeys: (app) => listKeys(store, app),
    revokeKey: (id, app) => revokeKey(store, id, app),

    listCredentials: (app) => listCredentials(store, app, stack.webPushContact),
    async saveCredential(key, { verified }, gateway) {
      const { channel } = verified;
      const keyInput = { ...key, channel };
      const saved = await saveCredential(store, sealingKeys(), keyInput, verified, gateway);
      return channel === 'fcm' ? withFcmWarning(store, key.app, saved) : saved;
    },
    saveWebPush: async (app, options) => saveWebPush(store, sealingKeys(), app, options),
    removeCredential: (key) => removeCredential(store, key),
    ...webhookMethods(store),

    listPushes: (app, query) => listPushes(store, app, query),
    getPushOutcomes: (id) => getPushOutcomes(store, id),
    getRecipientOutcome: (id, token) => getRecipientOutcome(store, id, token),
    listDevices: (app, query) => listDevices(store, app, query),
    listDevicePushes: (token, query) => readFullPage(store, token, query),
  };
}

function webhookMethods(store: CommandStore) {
  return {
    createWebhook: (app, address, events) => createWebhook(store, app, address, events),
    changeWebhook: (app, id, change) => changeWebhook(store, app, id, change),
    listWebhookDetails: (app) => listWebhookDetails(store, app),
    renewWebhookSecret: (app, id) => renewWebhookSecret(store, app, id),
    requestTestEvent: (app, id) => requestTestEvent(store, app, id),
    replayPushes: (app, id, range) => replayPushes(store, app, id, range),
    turnWebhookOff: (app, id) => turnWebhookOff(store, app, id),
    turnWebhookOn: (app, id) => turnWebhookOn(store, app, id),
    removeWebhook: (app, id) => removeWebhook(store, app, id),
  } satisfies Partial<Admin>;
}

/** Operator in the audit log's entries of commands. */
const COMMAND_LINE = { id: 'command-line', name: 'carillon command' };

/** Changes the pause of an app between two entries of the audit log, as the console does. */
async function changePause(store: CommandStore, id: string, paused: boolean): Promise<AppView> {
  const { account } = await requireApp(store, id);
  const entry = {
    ...{ actor: COMMAND_LINE, action: 'app.change', account },
    facts: { app: id, settings: 'paused', paused },
    ...{ address: hostname(), requestId: randomUUID() },
  };
  const begun = await store.audit.begin(entry);
  // Without its end the begin is still recorded.
  const end = (result: string) => store.audit.end(begun, entry, result, {}).catch(() => undefined);
  try {
    const view = await setAppPaused(store, id, paused);
    await end('done');
    return view;
  } catch (error) {
    await end(error instanceof AdminError ? 'NOT_FOUND' : 'INTERNAL');
    throw error;
  }
}

/** Reads on until a page is full: the list ends with a page that is not. */
async function readFullPage(
  store: Parameters<typeof listDevicePushes>[0],
  token: string,
  query: PageQuery,
): ReturnType<typeof listDevicePushes> {
  const page = await listDevicePushes(store, token, query);
  const missing = query.limit - page.items.length;
  if (page.next === undefined || missing === 0) return page;
  const { items, ...paging } = await readFullPage(store, token, {
    limit: missing,
    cursor: page.next,
  });
  return { items: [...page.items, ...items], ...paging };
}
