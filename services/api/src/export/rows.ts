import { toUnixSeconds } from '@carillon/accept/push-visibility';
import type { CsvValue } from '@carillon/core/csv';
import type { ExportedPush } from '@carillon/reports/export-pages';
import type { ReportedRecipient } from '@carillon/reports/recipients';
import { pushKindOf } from '@carillon/store/device-ways';
import type { DeviceDocument, SubscriptionDocument } from '@carillon/store/documents';
import { parseSubscriptionId } from '@carillon/store/subscriptions';
import { describePush } from '../outcomes/get-outcomes.ts';

/** One line of an export, and the value of `after` that continues behind it. */
export interface ExportRow {
  key: string;
  fields: Record<string, CsvValue>;
  /** JSON text of a last field, which keeps its original form. */
  payload?: string;
}

/** Columns of the exports in CSV, in this order; a field without a value is empty, and absent in NDJSON. */
export const EXPORT_COLUMNS = {
  devices: [
    ...['token', 'platform', 'date', 'last_active', 'uninstalled', 'unsubscribed', 'channel'],
    ...['address', 'address_date', 'environment', 'bundle', 'p256dh', 'auth', 'auth_sha256'],
    ...['push_kind', 'expires'],
  ],
  subscriptions: ['topic', 'token', 'platform', 'date'],
  pushes: [
    ...['id', 'state', 'date', 'schedule', 'expiration', 'finished', 'devices', 'topics'],
    ...['outcomes', 'collapse_key', 'payload'],
  ],
  recipients: ['token', 'outcome', 'reason', 'channel', 'milliseconds', 'detail'],
} as const satisfies Record<string, readonly string[]>;

export type ExportKind = keyof typeof EXPORT_COLUMNS;

/** Converts a device. Its credentials are not part of it, but the digest of those of another service is. */
export function toDeviceRow(device: DeviceDocument): ExportRow {
  const { _id: token, provider, authDigest, expiresAt } = device;
  const kind = pushKindOf(device);
  const { since, ...address } = provider ?? {};
  return {
    key: token,
    fields: {
      token,
      platform: device.platform,
      date: toUnixSeconds(device.registeredAt),
      last_active: toUnixSeconds(device.lastActiveAt),
      ...(device.uninstalled && { uninstalled: true }),
      ...(device.unsubscribed && { unsubscribed: true }),
      ...address,
      // The platform and `push_kind` say it.
      isApple: undefined,
      kind: undefined,
      ...(kind !== undefined && { push_kind: kind }),
      ...(expiresAt !== undefined && { expires: toUnixSeconds(expiresAt) }),
      ...(since !== undefined && { address_date: toUnixSeconds(since) }),
      ...(authDigest !== undefined && { auth_sha256: authDigest }),
    },
  };
}

/** Converts a subscription. */
export function toSubscriptionRow({ _id, platform, since }: SubscriptionDocument): ExportRow {
  const { topic, token } = parseSubscriptionId(_id);
  return {
    key: `${topic}:${token}`,
    fields: { topic, token, platform, date: toUnixSeconds(since) },
  };
}

/** Converts a push, with the original text of its payload. */
export function toPushRow(push: ExportedPush): ExportRow {
  const collapseKey = push.options?.collapse_key;
  return {
    key: push._id,
    fields: {
      ...describePush(push),
      ...(collapseKey !== undefined && { collapse_key: collapseKey }),
    },
    // A line break between the tokens of a JSON text is white space.
    payload: push.data.replaceAll(/[\r\n]+/g, ' '),
  };
}

/** Converts a recipient. */
export function toRecipientRow(recipient: ReportedRecipient): ExportRow {
  return { key: recipient.token, fields: { ...recipient } };
}
