import type { AccountView } from '@carillon/admin/accounts';
import type { AppView } from '@carillon/admin/apps';
import type { ProvidedFile } from '@carillon/admin/credential/verify-file';
import type { WebPushOptions } from '@carillon/admin/credential/web-push';
import type {
  CredentialKeyInput,
  CredentialView,
  VerifiedCredential,
} from '@carillon/admin/credentials';
import type { listDevicePushes } from '@carillon/admin/device-details';
import type { DeviceView } from '@carillon/admin/devices';
import type { FailureListQuery, FailureView } from '@carillon/admin/failures';
import type { KeyView } from '@carillon/admin/keys';
import type { Page, PageQuery } from '@carillon/admin/page';
import type { getPushOutcomes, getRecipientOutcome, PushView } from '@carillon/admin/pushes';
import type { FailureSelection, RedriveView } from '@carillon/admin/redrives';
import type { getTopic, listSubscribers, listTopics } from '@carillon/admin/topics';
import type { WebhookDetails, WebhookRequestView } from '@carillon/admin/webhooks';
import type { HostOverride } from '@carillon/core/channels/descriptor';
import type { WebhookEvent } from '@carillon/core/webhooks';
import type { PushQuery } from '@carillon/reports/push-search';
import type { AppSettings } from '@carillon/store/apps';
import type { WebhookView } from '@carillon/webhooks/manage-webhooks';

/** A credential's file, and the credential that is in it. */
export interface CheckedFile {
  provided: ProvidedFile;
  verified: VerifiedCredential;
}

/** One push of a device, with its status there. */
export type DevicePush = Awaited<ReturnType<typeof listDevicePushes>>['items'][number];

/** Which pushes of an app are listed. */
export type PushFilter = Pick<PushQuery, 'state' | 'topic' | 'outcome' | 'from'>;

/** A change of a webhook; absent parts stay. */
export interface WebhookChange {
  address?: URL | undefined;
  events?: readonly WebhookEvent[] | undefined;
}

/**
 * Administrative work, done over the database or over the console. The methods are the functions of `packages/admin` with
 * the same names: arguments and results are theirs, without the store and the keys.
 */
export interface Admin {
  createAccount(name: string, plan: AccountView['plan']): Promise<{ id: string }>;
  listAccounts(query: PageQuery): Promise<Page<AccountView>>;
  setRequestLimit(id: string, limit: number | null): Promise<AccountView>;
  suspendAccount(id: string): Promise<AccountView>;
  resumeAccount(id: string): Promise<AccountView>;

  createApp(app: { name: string; account: string }): Promise<{ id: string; apiKey: string }>;
  getApp(id: string): Promise<AppView>;
  listApps(query: PageQuery & { account?: string | undefined }): Promise<Page<AppView>>;
  /** Also returns what is missing for FCM, if the settings change its use. */
  updateAppSettings(id: string, settings: AppSettings): Promise<AppView & { warning?: string }>;
  /** Is in the audit log. */
  setAppPaused(id: string, paused: boolean): Promise<AppView>;

  createKey(app: string): Promise<{ id: string; apiKey: string }>;
  listKeys(app: string): Promise<KeyView[]>;
  /** @param app the only app whose key it may be; the console needs it */
  revokeKey(id: string, app: string | undefined): Promise<{ id: string }>;

  listCredentials(app: string): Promise<CredentialView[]>;
  /** Also returns what is missing for FCM. @param gateway reached instead of the provider; never over the console */
  saveCredential(
    key: Omit<CredentialKeyInput, 'channel'>,
    file: CheckedFile,
    gateway: HostOverride | undefined,
  ): Promise<CredentialView>;
  saveWebPush(
    app: string,
    options: WebPushOptions & { replace?: boolean },
  ): Promise<CredentialView>;
  removeCredential(key: CredentialKeyInput): Promise<{ id: string }>;

  createWebhook(
    app: string,
    address: URL,
    events: readonly WebhookEvent[],
  ): Promise<{ webhook: WebhookView; secret: string }>;
  changeWebhook(app: string, id: string, change: WebhookChange): Promise<WebhookView>;
  listWebhookDetails(app: string): Promise<WebhookDetails[]>;
  renewWebhookSecret(app: string, id: string): Promise<string>;
  requestTestEvent(app: string, id: string): Promise<void>;
  listWebhookRequests(app: string, id: string): Promise<WebhookRequestView[]>;
  resendRequest(app: string, id: string, request: string): Promise<void>;
  replayPushes(
    app: string,
    id: string,
    range: { fromMs: number; toMs: number },
  ): Promise<{ pushes: number }>;
  turnWebhookOff(app: string, id: string): Promise<void>;
  turnWebhookOn(app: string, id: string): Promise<void>;
  removeWebhook(app: string, id: string): Promise<void>;

  /** This and the lists below return a full page, unless the list ends. */
  listPushes(app: string, query: PageQuery & PushFilter): Promise<Page<PushView>>;
  getPushOutcomes(id: string): ReturnType<typeof getPushOutcomes>;
  getRecipientOutcome(id: string, token: string): ReturnType<typeof getRecipientOutcome>;
  listDevices(app: string, query: PageQuery): Promise<Page<DeviceView>>;
  listDevicePushes(token: string, query: PageQuery): Promise<Page<DevicePush>>;
  listTopics(app: string, query: PageQuery): ReturnType<typeof listTopics>;
  getTopic(app: string, name: string): ReturnType<typeof getTopic>;
  listSubscribers(app: string, topic: string, query: PageQuery): ReturnType<typeof listSubscribers>;

  listFailures(app: string, query: FailureListQuery): Promise<Page<FailureView>>;
  /** Is in the audit log. */
  startRedrive(app: string, selection: FailureSelection): Promise<string>;
  getRedrive(id: string): Promise<RedriveView>;
}
