import type { DeviceDocument, PushDocument, SubscriptionDocument } from '@carillon/store/documents';
import { IS_NOT_FORMER } from '@carillon/store/former-devices';
import { IS_UNSUBSCRIBING } from '@carillon/store/subscriptions';
import type { Db } from 'mongodb';
import { REPORTED_LIST_FIELDS, type ReportedListPush } from './push-outcomes.ts';

/** A push with its payload. */
export type ExportedPush = ReportedListPush & Pick<PushDocument, 'data' | 'options'>;

const PUSH_FIELDS = { ...REPORTED_LIST_FIELDS, data: 1, options: 1 } as const;

/** Reads an app's data page by page, each page by a range of ids, document by document. */
export function createExportPages(db: Db) {
  const devices = db.collection<DeviceDocument>('devices');
  const subscriptions = db.collection<SubscriptionDocument>('subscriptions');
  const pushes = db.collection<PushDocument>('pushes');
  return {
    /** Reads an app's devices after the token `after`, in order of token, without former ones. */
    streamDevices: (app: string, after: string, limit: number): AsyncIterable<DeviceDocument> =>
      devices
        .find(
          { app, _id: { $gt: after }, deletedAt: { $exists: false }, ...IS_NOT_FORMER },
          { batchSize: limit + 1 },
        )
        .sort({ _id: 1 })
        .limit(limit),

    /** Reads an app's subscriptions after `topic:token`, in order of topic and token. */
    streamSubscriptions: (
      app: string,
      after: string,
      limit: number,
    ): AsyncIterable<SubscriptionDocument> =>
      subscriptions
        .find(
          { _id: { $gt: `${app}:${after}`, $lt: `${app};` }, pending: { $not: IS_UNSUBSCRIBING } },
          { batchSize: limit + 1 },
        )
        .sort({ _id: 1 })
        .limit(limit),

    /** Reads an app's accepted pushes after an id, the oldest first, with their payloads. */
    streamPushes: (app: string, after: string, limit: number): AsyncIterable<ExportedPush> =>
      pushes
        .find<ExportedPush>(
          { app, _id: { $gt: after }, state: { $nin: ['accepting', 'abandoned'] } },
          { projection: PUSH_FIELDS, batchSize: limit + 1 },
        )
        .sort({ _id: 1 })
        .limit(limit),
  };
}
