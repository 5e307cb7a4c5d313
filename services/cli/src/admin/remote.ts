import { basename } from 'node:path';
import type { ProvidedFile } from '@carillon/admin/credential/verify-file';
import type { CredentialFile } from '@carillon/admin/credentials';
import type { HostOverride } from '@carillon/core/channels/descriptor';
import type { AppSettings } from '@carillon/store/apps';
import { usageError } from '../failure.ts';
import type { Admin } from './admin.ts';
import { type ConsoleClient, createConsoleClient } from './console-client.ts';
import * as responses from './responses.ts';

/** Makes the administrative work over a console, with the rights of an operator token. */
export function createRemoteAdmin(base: string, token: string): Admin {
  const client = createConsoleClient(base, token);
  return {
    ...accountMethods(client),
    ...appMethods(client),
    ...credentialMethods(client),
    ...webhookMethods(client),
    ...readMethods(client),
    ...failureMethods(client),
  };
}

function accountMethods({ send, list }: ConsoleClient) {
  const change = (id: string, body: object) =>
    send('PUT', `/accounts/${encodeURIComponent(id)}`, responses.account, body);
  return {
    createAccount: (name, plan) => send('POST', '/accounts', responses.created, { name, plan }),
    listAccounts: (query) => list('/accounts', responses.account, query),
    setRequestLimit: (id, requestLimit) => change(id, { requestLimit }),
    suspendAccount: (id) => change(id, { suspended: true }),
    resumeAccount: (id) => change(id, { suspended: false }),
  } satisfies Partial<Admin>;
}

function appMethods({ send, get, list }: ConsoleClient) {
  const change = (id: string, body: object) => send('PUT', appPath(id), responses.app, body);
  return {
    createApp: (app) => send('POST', '/apps', responses.createdKey, app),
    getApp: (id) => get(appPath(id), responses.app),
    listApps: ({ account, ...query }) => list('/apps', responses.app, query, { account }),
    updateAppSettings: (id, settings) => change(id, toConsoleSettings(settings)),
    setAppPaused: (id, paused) => change(id, { paused }),

    createKey: (app) => send('POST', `${appPath(app)}/keys`, responses.createdKey),
    listKeys: async (app) => (await get(`${appPath(app)}/keys`, responses.keys)).items,
    async revokeKey(id, app) {
      if (app === undefined) throw usageError('The console needs the app of the key: give --app.');
      return send('DELETE', `${appPath(app)}/keys/${encodeURIComponent(id)}`, responses.created);
    },
  } satisfies Partial<Admin>;
}

/** Converts settings to the names that the console's routes have for them. */
function toConsoleSettings({ registrationClosed, fcm, ...settings }: AppSettings) {
  return {
    ...settings,
    ...(registrationClosed !== undefined && {
      registration: registrationClosed ? 'closed' : 'open',
    }),
    ...(fcm !== undefined && { fcmFallback: fcm ?? 'off' }),
  };
}

function credentialMethods({ send, get }: ConsoleClient) {
  const put = (app: string, channel: string, body: object) =>
    send('PUT', `${appPath(app)}/credentials/${channel}`, responses.credential, body);
  return {
    listCredentials: async (app) =>
      (await get(`${appPath(app)}/credentials`, responses.credentials)).items,
    async saveCredential({ app, environment }, { provided, verified }, gateway) {
      refuseGateway(gateway);
      return put(app, verified.channel, { environment, ...toFileFields(provided) });
    },
    saveWebPush: (app, { privateKey, ...options }) =>
      put(app, 'web-push', {
        ...options,
        ...(privateKey !== undefined && { privateKey: toFile(privateKey) }),
      }),
    removeCredential: ({ app, channel, environment }) =>
      send('DELETE', `${appPath(app)}/credentials/${channel}`, responses.created, { environment }),
  } satisfies Partial<Admin>;
}

/** An operator of the console names no other server for the installation's credentials. */
function refuseGateway(gateway: HostOverride | undefined): void {
  if (gateway === undefined) return;
  throw usageError('--gateway does not work over the console in CARILLON_CONSOLE.');
}

function toFileFields(provided: ProvidedFile): object {
  const file = toFile(provided.file);
  if (provided.kind === 'apns-token') return { key: file, ...provided.ids };
  if (provided.kind === 'apns-certificate') return { certificate: file, ...provided.options };
  return { serviceAccount: file };
}

function toFile({ name, content }: CredentialFile) {
  return { name: basename(name), base64: content.toString('base64') };
}

function webhookMethods({ send, get }: ConsoleClient) {
  const pathOf = (app: string, id: string) => `${appPath(app)}/webhooks/${encodeURIComponent(id)}`;
  const act = async (app: string, id: string, action: string): Promise<void> => {
    await send('POST', `${pathOf(app, id)}/${action}`, responses.done);
  };
  return {
    createWebhook: (app, { href: url }, events) =>
      send('POST', `${appPath(app)}/webhooks`, responses.createdWebhook, { url, events }),
    changeWebhook: (app, id, { address, events }) =>
      send('PATCH', pathOf(app, id), responses.webhook, { url: address?.href, events }),
    listWebhookDetails: async (app) =>
      (await get(`${appPath(app)}/webhooks`, responses.webhooks)).items,
    renewWebhookSecret: async (app, id) =>
      (await send('POST', `${pathOf(app, id)}/rotate`, responses.createdSecret)).secret,
    requestTestEvent: (app, id) => act(app, id, 'test'),
    listWebhookRequests: async (app, id) =>
      (await get(`${pathOf(app, id)}/requests`, responses.webhookRequests)).items,
    resendRequest: (app, id, request) =>
      act(app, id, `requests/${encodeURIComponent(request)}/resend`),
    async replayPushes(app, id, { fromMs: from, toMs: to }) {
      let pushes = 0;
      let after: string | undefined;
      do {
        const range = { from, to, after };
        const part = await send('POST', `${pathOf(app, id)}/replay`, responses.replayed, range);
        pushes += part.pushes;
        after = part.last;
      } while (after !== undefined);
      return { pushes };
    },
    turnWebhookOff: (app, id) => act(app, id, 'off'),
    turnWebhookOn: (app, id) => act(app, id, 'on'),
    async removeWebhook(app, id) {
      await send('DELETE', pathOf(app, id), responses.done);
    },
  } satisfies Partial<Admin>;
}

function readMethods({ get, list }: ConsoleClient) {
  const pushPath = (id: string) => `/pushes/${encodeURIComponent(id)}`;
  return {
    listPushes: (app, { from, state, topic, outcome, ...page }) =>
      list(`${appPath(app)}/pushes`, responses.push, page, {
        ...{ state, topic, outcome, from: from?.getTime() },
      }),
    getPushOutcomes: (id) => get(pushPath(id), responses.pushOutcomes),
    getRecipientOutcome: (id, token) =>
      get(`${pushPath(id)}/recipients/${encodeURIComponent(token)}`, responses.recipient),
    listDevices: (app, query) => list(`${appPath(app)}/devices`, responses.device, query),
    listDevicePushes: (token, query) =>
      list(`/devices/${encodeURIComponent(token)}/pushes`, responses.devicePush, query),
    listTopics: (app, query) => list(`${appPath(app)}/topics`, responses.topicSize, query),
    getTopic: (app, name) => get(topicPath(app, name), responses.topic),
    listSubscribers: (app, topic, query) =>
      list(`${topicPath(app, topic)}/subscribers`, responses.subscriber, query),
  } satisfies Partial<Admin>;
}

function failureMethods({ send, get, list }: ConsoleClient) {
  return {
    listFailures: (app, { channel, reason, from, to, ...page }) =>
      list(`${appPath(app)}/failures`, responses.failure, page, {
        ...{ channel, reason, from: from?.getTime(), to: to?.getTime() },
      }),
    async startRedrive(app, { pushes, channel, reason, from, to }) {
      const filter = { channel, reason, from: from?.getTime(), to: to?.getTime() };
      const body = { pushes, filter };
      return (await send('POST', `${appPath(app)}/redrives`, responses.created, body)).id;
    },
    getRedrive: (id) => get(`/redrives/${encodeURIComponent(id)}`, responses.redrive),
  } satisfies Partial<Admin>;
}

function topicPath(app: string, topic: string): string {
  return `${appPath(app)}/topics/${encodeURIComponent(topic)}`;
}

function appPath(id: string): string {
  return `/apps/${encodeURIComponent(id)}`;
}
