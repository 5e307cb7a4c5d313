import {
  createAccount,
  listAccounts,
  resumeAccount,
  setRequestLimit,
  suspendAccount,
} from '@carillon/admin/accounts';
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
import { listFailures } from '@carillon/admin/failures';
import { withFcmWarning } from '@carillon/admin/fcm-use';
import { createKey, listKeys, revokeKey } from '@carillon/admin/keys';
import { getPushOutcomes, getRecipientOutcome, listPushes } from '@carillon/admin/pushes';
import { getRedrive, startRedrive } from '@carillon/admin/redrives';
import { requireApp } from '@carillon/admin/require-app';
import { getTopic, listSubscribers, listTopics } from '@carillon/admin/topics';
import {
  changeWebhook,
  createWebhook,
  listWebhookDetails,
  listWebhookRequests,
  removeWebhook,
  renewWebhookSecret,
  replayPushes,
  requestTestEvent,
  resendRequest,
  turnWebhookOff,
  turnWebhookOn,
} from '@carillon/admin/webhooks';
import { parseSealingKeys, type SealingKeys } from '@carillon/core/sealing';
import { COMMAND_LINE, runAudited } from '../audited.ts';
import type { CommandStore } from '../database.ts';
import { readFullPage } from '../paging.ts';
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
    ...readMethods(store),
    ...failureMethods(store),
  };
}

function webhookMethods(store: CommandStore) {
  return {
    createWebhook: (app, address, events) => createWebhook(store, app, address, events),
    changeWebhook: (app, id, change) => changeWebhook(store, app, id, change),
    listWebhookDetails: (app) => listWebhookDetails(store, app),
    renewWebhookSecret: (app, id) => renewWebhookSecret(store, app, id),
    requestTestEvent: (app, id) => requestTestEvent(store, app, id),
    listWebhookRequests: (app, id) => listWebhookRequests(store, app, id),
    resendRequest: (app, id, request) => resendRequest(store, app, id, request),
    replayPushes: (app, id, range) => replayPushes(store, app, id, range),
    turnWebhookOff: (app, id) => turnWebhookOff(store, app, id),
    turnWebhookOn: (app, id) => turnWebhookOn(store, app, id),
    removeWebhook: (app, id) => removeWebhook(store, app, id),
  } satisfies Partial<Admin>;
}

function readMethods(store: CommandStore) {
  return {
    listPushes: (app, { limit, cursor, ...filter }) =>
      readFullPage({ limit, cursor }, (query) => listPushes(store, { app, ...filter, ...query })),
    getPushOutcomes: (id) => getPushOutcomes(store, id),
    getRecipientOutcome: (id, token) => getRecipientOutcome(store, id, token),
    listDevices: (app, query) => listDevices(store, app, query),
    listDevicePushes: (token, page) =>
      readFullPage(page, (query) => listDevicePushes(store, token, query)),
    listTopics: (app, query) => listTopics(store, app, query),
    getTopic: (app, name) => getTopic(store, app, name),
    listSubscribers: (app, topic, query) => listSubscribers(store, app, topic, query),
  } satisfies Partial<Admin>;
}

function failureMethods(store: CommandStore) {
  return {
    async listFailures(app, { limit, cursor, ...filter }) {
      await requireApp(store, app);
      return readFullPage({ limit, cursor }, (query) =>
        listFailures(store, app, { ...filter, ...query }),
      );
    },
    async startRedrive(app, selection) {
      const { account } = await requireApp(store, app);
      const change = { action: 'failures.redrive', account, facts: { app } };
      const { id } = await runAudited(store, change, async () => ({
        id: await startRedrive(store, app, selection, COMMAND_LINE.name),
      }));
      return id;
    },
    getRedrive: (id) => getRedrive(store, id),
  } satisfies Partial<Admin>;
}

/** Changes the pause of an app between two entries of the audit log, as the console does. */
async function changePause(store: CommandStore, id: string, paused: boolean): Promise<AppView> {
  const { account } = await requireApp(store, id);
  const facts = { app: id, settings: 'paused', paused };
  return runAudited(store, { action: 'app.change', account, facts }, () =>
    setAppPaused(store, id, paused),
  );
}
