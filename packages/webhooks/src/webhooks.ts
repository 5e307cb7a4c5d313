import type { BoxKey, SealedBox } from '@carillon/core/sealed-box';
import { WEBHOOK_LIMITS, type WebhookEvent } from '@carillon/core/webhooks';
import { type Clock, fromNow } from '@carillon/store/clock';
import type { DeviceDocument, WebhookDocument } from '@carillon/store/documents';
import { isDuplicateKey } from '@carillon/store/mongo-errors';
import { NOTIFY_INDEX } from '@carillon/store/notify-mark';
import type { Collection, Db, Filter } from 'mongodb';
import type { WebhookRequestDocument } from './requests.ts';

/** Maximum devices that one statement changes when a webhook is removed. */
const DEVICES_PER_STEP = 1_000;
/** Minimum interval between two records of successes that change nothing else. */
const SUCCESS_INTERVAL_MS = 10_000;

/** A webhook to create. */
export type NewWebhook = Pick<WebhookDocument, '_id' | 'app' | 'address' | 'host' | 'events'> & {
  secret: SealedBox;
};

/** The changeable fields of a webhook. */
export interface WebhookChange {
  events?: readonly WebhookEvent[];
  address?: Pick<WebhookDocument, 'address' | 'host'>;
}

/** Response of a receiver, or the reason why there was none. */
export type WebhookResponse = { status: number } | { error: string };

/** A webhook as a request was sent to it; its sealed address is another text once it was changed. */
type CalledWebhook = Pick<WebhookDocument, '_id' | 'address'>;

/** Webhooks of apps: their settings, their state, and the results of requests. */
export function createWebhooks(db: Db, clock: Clock) {
  const webhooks: WebhookCollection = db.collection('webhooks');
  return {
    ...createWebhookSettings(db, webhooks, clock),
    ...createSwitches(webhooks, clock),
    ...createResults(webhooks, clock),
    ...createResends(webhooks),
    ...createSealed(webhooks, db.collection('box_keys'), clock),
  };
}

type WebhookCollection = Collection<WebhookDocument>;

/** Fields of failed requests, without which the next request is sent at once. */
const FAILURE_FIELDS = {
  failures: true,
  failedAt: true,
  failingSince: true,
  retryAt: true,
} as const;
/**
 * Minimum time between two failures after which the second begins a new row: what waits is sent at least once a day.
 */
const FAILURE_GAP_MS = 2 * 86_400_000;

/** Matches a webhook while it has the address that a request was sent to: a later one has no part in its result. */
function calledAt({ _id, address }: CalledWebhook) {
  return { _id, 'address.text': address.text };
}

function createWebhookSettings(db: Db, webhooks: WebhookCollection, clock: Clock) {
  const devices = db.collection<DeviceDocument>('devices');
  const requests = db.collection<WebhookRequestDocument>('webhook_requests');
  /** Lists the slots of an app that no webhook has. */
  async function listFreeSlots(app: string): Promise<number[]> {
    const found = await webhooks.find({ app }, { projection: { slot: 1 } }).toArray();
    const taken = new Set(found.map(({ slot }) => slot));
    return Array.from({ length: WEBHOOK_LIMITS.perApp }, (_, slot) => slot).filter(
      (slot) => !taken.has(slot),
    );
  }

  return {
    /**
     * Creates a webhook. It takes a slot of its app, which a unique index gives to one of several concurrent calls.
     *
     * @returns false if the app has as many as it may have
     */
    async create({ secret, ...webhook }: NewWebhook): Promise<boolean> {
      const document = {
        ...{ ...webhook, secrets: [{ sealed: secret }] },
        createdAt: new Date(clock.now()),
      };
      for (const slot of await listFreeSlots(webhook.app)) {
        try {
          await webhooks.insertOne({ ...document, slot });
          return true;
        } catch (error) {
          if (!isDuplicateKey(error)) throw error;
        }
      }
      return false;
    },
    /** Lists an app's webhooks, the oldest first. */
    list: (app: string): Promise<WebhookDocument[]> =>
      webhooks.find({ app }).sort({ createdAt: 1, _id: 1 }).toArray(),
    /** Finds a webhook of any app. */
    find: async (id: string) => (await webhooks.findOne({ _id: id })) ?? undefined,
    /** Finds a webhook of an app; undefined when it is absent or another app's. */
    findOf: async (app: string, id: string) =>
      (await webhooks.findOne({ _id: id, app })) ?? undefined,
    /**
     * Changes a webhook; the record of reported events stays. A new address begins without the failures of the one
     * before.
     *
     * @returns the changed webhook; undefined when it is absent or another app's
     */
    async change(
      app: string,
      id: string,
      { events, address }: WebhookChange,
    ): Promise<WebhookDocument | undefined> {
      const changed = await webhooks.findOneAndUpdate(
        { _id: id, app },
        {
          $set: { ...(events && { events: [...events] }), ...address },
          ...(address && { $unset: FAILURE_FIELDS }),
        },
        { returnDocument: 'after' },
      );
      return changed ?? undefined;
    },
    /**
     * Removes a webhook and its requests; unreported events are discarded. Pushes keep its entries until they go, devices
     * would keep them for years. It is off meanwhile: where this is interrupted, it is there and may be removed again.
     */
    async remove(app: string, id: string): Promise<boolean> {
      const off = { at: new Date(clock.now()), reason: 'operator' as const };
      const { matchedCount } = await webhooks.updateOne({ _id: id, app }, { $set: { off } });
      if (matchedCount === 0) return false;
      await forgetDevices(devices, id);
      const { deletedCount } = await webhooks.deleteOne({ _id: id, app });
      // A request in flight may leave its record, which nobody can read, until the index on its time removes it.
      await requests.deleteMany({ webhook: id });
      return deletedCount === 1;
    },
    /** Requests a test event, which is sent at once even if the webhook waits for a retry. */
    requestTest: async (app: string, id: string): Promise<boolean> =>
      (
        await webhooks.updateOne(
          { _id: id, app, off: { $exists: false } },
          { $set: { testAt: new Date(clock.now()) } },
        )
      ).matchedCount === 1,
    /** Removes the request for a test event, unless there was another one since. */
    async endTest(id: string, testAt: Date): Promise<void> {
      await webhooks.updateOne({ _id: id, testAt }, { $unset: { testAt: true } });
    },
    /** Counts the webhooks of all apps that work, that fail now, and that failures have turned off. */
    async countByState(): Promise<Record<'on' | 'failing' | 'off', number>> {
      const on = { off: { $exists: false } };
      const [all, failing, off] = await Promise.all([
        webhooks.countDocuments(on),
        webhooks.countDocuments({ ...on, failures: { $exists: true } }),
        webhooks.countDocuments({ 'off.reason': { $in: ['gone', 'failing'] } }),
      ]);
      return { on: all - failing, failing, off };
    },
  };
}

/** Removes the entries of a webhook from devices, by the index of what is to be reported. */
async function forgetDevices(devices: Collection<DeviceDocument>, webhook: string): Promise<void> {
  for (;;) {
    const found = await devices
      .find(
        {
          notify: { $elemMatch: { w: webhook, at: { $exists: true } } },
          'notify.at': { $exists: true },
        },
        { projection: { _id: 1 }, hint: NOTIFY_INDEX, batchSize: DEVICES_PER_STEP + 1 },
      )
      .limit(DEVICES_PER_STEP)
      .map(({ _id }) => _id)
      .toArray();
    if (found.length === 0) return;
    await devices.updateMany({ _id: { $in: found } }, { $pull: { notify: { w: webhook } } });
  }
}

/** Turns webhooks on and off. */
function createSwitches(webhooks: WebhookCollection, clock: Clock) {
  /** Turns a webhook off unless it is off already. */
  async function turnOff(
    filter: Filter<WebhookDocument>,
    reason: NonNullable<WebhookDocument['off']>['reason'],
  ): Promise<boolean> {
    const off = { at: new Date(clock.now()), reason };
    const ended = { retryAt: true, testAt: true, resend: true } as const;
    const update = { $set: { off }, $unset: ended };
    const { modifiedCount } = await webhooks.updateOne(
      { ...filter, off: { $exists: false } },
      update,
    );
    return modifiedCount === 1;
  }

  return {
    /** Turns a webhook of an app off: nothing is reported to it any more. */
    turnOffOf: (app: string, id: string): Promise<boolean> => turnOff({ _id: id, app }, 'operator'),
    /** Turns a webhook off whose receiver refuses events for good. */
    turnOff: (webhook: CalledWebhook, reason: 'gone' | 'failing'): Promise<boolean> =>
      turnOff(calledAt(webhook), reason),
    /** Turns a webhook of an app on again, and resets its failures. */
    turnOn: async (app: string, id: string): Promise<boolean> =>
      (await webhooks.updateOne({ _id: id, app }, { $unset: { off: true, ...FAILURE_FIELDS } }))
        .matchedCount === 1,
  };
}

/** Records the results of requests to receivers. */
function createResults(webhooks: WebhookCollection, clock: Clock) {
  return {
    /** Records a request that the receiver accepted. Writes only if that changes more than the time. */
    async recordSuccess(webhook: WebhookDocument, status: number): Promise<void> {
      const { failures, retryAt, lastSuccessAt } = webhook;
      const now = clock.now();
      const isRecent = now - (lastSuccessAt?.getTime() ?? 0) < SUCCESS_INTERVAL_MS;
      if (failures === undefined && retryAt === undefined && isRecent) return;
      const at = new Date(now);
      await webhooks.updateOne(calledAt(webhook), {
        $set: { last: { at, status }, lastSuccessAt: at },
        $unset: FAILURE_FIELDS,
      });
    },
    /**
     * Records a request that failed: the next one is sent after `retryMs`. A failure that comes alone, days after the
     * one before, is the first of a new row.
     *
     * @returns since when requests fail
     */
    async recordFailure(
      webhook: CalledWebhook,
      response: WebhookResponse,
      retryMs: number,
    ): Promise<Date> {
      const continues = { $gt: ['$failedAt', fromNow(-FAILURE_GAP_MS)] };
      const updated = await webhooks.findOneAndUpdate(
        calledAt(webhook),
        [
          {
            $set: {
              failures: { $add: [{ $ifNull: ['$failures', 0] }, 1] },
              failedAt: '$$NOW',
              failingSince: { $cond: [continues, '$failingSince', '$$NOW'] },
              retryAt: fromNow(retryMs),
              last: { $mergeObjects: [{ $literal: response }, { at: '$$NOW' }] },
            },
          },
        ],
        { returnDocument: 'after' },
      );
      return updated?.failingSince ?? new Date(clock.now());
    },
    /** Records the response to a test event that failed; when events are sent, and since when they fail, stays. */
    async recordFailedTest(webhook: CalledWebhook, response: WebhookResponse): Promise<void> {
      const last = { ...response, at: new Date(clock.now()) };
      await webhooks.updateOne(calledAt(webhook), { $set: { last } });
    },
    /** Delays the next request by `delayMs`, which is no failure of the webhook: its address is down for others too. */
    async postpone(webhook: CalledWebhook, delayMs: number): Promise<void> {
      await webhooks.updateOne({ ...calledAt(webhook), off: { $exists: false } }, [
        { $set: { retryAt: fromNow(delayMs) } },
      ]);
    },
  };
}

/** Requests that are to be sent again. */
function createResends(webhooks: WebhookCollection) {
  return {
    /** Has a worker send a request again, unless the webhook is off or another request of it waits to be. */
    requestResend: async (app: string, id: string, request: string): Promise<boolean> =>
      (
        await webhooks.updateOne(
          { _id: id, app, off: { $exists: false }, resend: { $exists: false } },
          { $set: { resend: request } },
        )
      ).matchedCount === 1,
    /**
     * Removes the request to be sent again.
     *
     * @returns false if another worker has removed it, and sends it
     */
    endResend: async (id: string, request: string): Promise<boolean> =>
      (await webhooks.updateOne({ _id: id, resend: request }, { $unset: { resend: true } }))
        .modifiedCount === 1,
  };
}

/** Sealed texts of webhooks, and the public key that they are sealed with. */
function createSealed(
  webhooks: WebhookCollection,
  boxKeys: Collection<BoxKey & { _id: string }>,
  clock: Clock,
) {
  return {
    /** Adds a secret; the previous one is used beside it for `overlapMs`, an older one no more. */
    async rotate(
      { _id, app, secrets }: WebhookDocument,
      sealed: SealedBox,
      overlapMs: number,
    ): Promise<boolean> {
      const [newest] = secrets;
      if (newest === undefined) return false;
      const endsAt = new Date(clock.now() + overlapMs);
      const { matchedCount } = await webhooks.updateOne(
        { _id, app, 'secrets.0.sealed.text': newest.sealed.text },
        { $set: { secrets: [{ sealed }, { sealed: newest.sealed, endsAt }] } },
      );
      return matchedCount === 1;
    },
    /** Saves the public key that addresses and secrets are sealed with. */
    async putBoxKey({ id, publicKey }: BoxKey): Promise<void> {
      await boxKeys.updateOne({ _id: 'webhooks' }, { $set: { id, publicKey } }, { upsert: true });
    },
    /** Returns the public key; undefined before a process that holds the sealing keys has saved it. */
    async findBoxKey(): Promise<BoxKey | undefined> {
      const found = await boxKeys.findOne({ _id: 'webhooks' });
      return found === null ? undefined : { id: found.id, publicKey: found.publicKey };
    },
    /** Reads all webhooks of all apps, one at a time. */
    iterateAll: (): AsyncIterable<WebhookDocument> => webhooks.find(),
    /**
     * Saves the same texts sealed again.
     *
     * @returns false if the webhook was changed meanwhile
     */
    reseal: async (
      { _id, secrets, address }: WebhookDocument,
      resealed: Pick<WebhookDocument, 'address' | 'secrets'>,
    ): Promise<boolean> =>
      (
        await webhooks.updateOne(
          {
            _id,
            'address.text': address.text,
            'secrets.0.sealed.text': secrets[0]?.sealed.text ?? '',
          },
          { $set: resealed },
        )
      ).matchedCount === 1,
  };
}
