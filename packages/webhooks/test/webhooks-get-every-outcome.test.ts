import { splitTokens } from '@carillon/core/batch';
import { newObjectId as newWebhook } from '@carillon/core/ids';
import { describeOutcome, failureCode, OUTCOMES } from '@carillon/core/outcomes';
import { processCounts } from '@carillon/core/process-counts';
import { WEBHOOK_EVENTS, type WebhookEvent } from '@carillon/core/webhooks';
import { NOTIFY_INDEX } from '@carillon/store/notify-mark';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import {
  acknowledge,
  deliver,
  expire,
  insertPush,
  newTokens,
  RETENTION_MS,
  SHAPES,
  type StoreUnderTest,
  startStore,
  type TestPush,
} from '../../store/test/store-under-test.ts';
import { buildEvents } from '../src/events.ts';
import {
  type ClaimedReport,
  isEndUnreported,
  type ReportProgress,
  unreportedRecipients,
} from '../src/outbox.ts';
import { APP, skipDelays } from './webhook-under-test.ts';

const LEASE_MS = 60_000;
const LIMITS = { pushes: 10, recipients: 10 };

let database: StoreUnderTest;
beforeAll(async () => {
  database = await startStore();
});
afterAll(() => database?.stop());

/** Builds the entries of a push that is reported to webhooks. */
const entriesOf = (...ids: string[]) => ids.map((w) => ({ w, r: true as const, v: 0 }));

/** Describes the events of a report, as `token outcome`, `finished` or `device event`. */
function describeReport(report: ClaimedReport): string[] {
  if (report.kind === 'devices')
    return (report.entry.events ?? []).map((event) => `${report.id} ${event}`);
  const tokens = splitTokens(report.document.work?.tokens ?? '');
  const recipients = unreportedRecipients(report).map(
    ({ position, code }) => `${tokens[position]} ${describeOutcome(code).outcome}`,
  );
  return [...recipients, ...(isEndUnreported(report) ? ['finished'] : [])];
}

/** Records that all events of a report were sent. */
function reportedAll(report: ClaimedReport): ReportProgress {
  if (report.kind === 'devices')
    return { report, events: report.entry.events ?? [], isComplete: true };
  const { work } = report.document;
  const reported = new Uint8Array(work?.n ?? 0);
  reported.set(report.entry.reported?.buffer ?? []);
  for (const { position, code } of unreportedRecipients(report)) reported[position] = code;
  return { report, reported, finished: isEndUnreported(report), isComplete: true };
}

/** Waits until the store's estimate of MongoDB's clock is past what MongoDB has stamped so far. */
async function untilDue(): Promise<void> {
  const { localTime } = await database.db.command({ hello: 1 });
  await until(() => database.store.clock.now() > Number(localTime), { everyMs: 5 });
}

async function claimDue(webhook: string): Promise<ClaimedReport[]> {
  await untilDue();
  return database.store.outbox.claim(webhook, LEASE_MS);
}

const record = (reports: readonly ClaimedReport[]) =>
  database.store.outbox.record(reports.map(reportedAll), LEASE_MS);

/** Claims and records until nothing is due; returns the reported events, sorted. */
async function drain(webhook: string): Promise<string[]> {
  const events: string[] = [];
  for (;;) {
    const reports = await claimDue(webhook);
    if (reports.length === 0) return events.sort();
    events.push(...reports.flatMap(describeReport));
    await record(reports);
  }
}

/** Outcomes of devices that were offline. */
const offline = (...tokens: string[]) =>
  Object.fromEntries(tokens.map((token) => [token, OUTCOMES.inbox]));
/** Events of recipients, and that of the end, sorted. */
const ended = (events: readonly string[]) => [...events, 'finished'].sort();
const all = (tokens: readonly string[], outcome: string) =>
  tokens.map((token) => `${token} ${outcome}`).sort();

const range = ({ id }: TestPush) => ({ from: id.slice(0, -1), to: `${id}~` });
const newReplayed = () => ({
  _id: newWebhook(),
  app: APP,
  events: ['recipient.delivered' as const],
});
const complete = ({ id }: TestPush) =>
  database.store.pushCompletion.completeIfDone(id, RETENTION_MS);

describe.each(SHAPES)('of a push that is %s,', (shape) => {
  const insertFor = (webhook: string, recipients: number) =>
    insertPush(database, newTokens(recipients), { shape, notify: entriesOf(webhook) });

  test('each outcome is reported once, and again when it changes', async () => {
    const webhook = newWebhook();
    const push = await insertFor(webhook, 4);
    const [delivered, failed, late, last] = push.tokens as [string, string, string, string];
    expect(await drain(webhook)).toEqual([]);
    const outcomes = { [failed]: failureCode('inbox-full'), ...offline(late, last) };
    await deliver(database.store, push, outcomes);
    expect(await drain(webhook)).toEqual([`${delivered} delivered`, `${failed} failed`].sort());
    await acknowledge(database, push, late);
    expect(await drain(webhook)).toEqual([`${late} delivered`]);
    await expire(database, push);
    await complete(push);
    expect(await drain(webhook)).toEqual(ended([`${last} expired`]));
    expect(await database.store.outbox.filterDue([webhook])).toEqual([]);
  });

  test('a deletion and a finished push are reported', async () => {
    const webhook = newWebhook();
    const deleted = await insertFor(webhook, 2);
    await database.store.pushCompletion.markDeleted(APP, deleted.id);
    await complete(deleted);
    expect(await drain(webhook)).toEqual(ended(all(deleted.tokens, 'deleted')));
    const done = await insertFor(webhook, 2);
    await deliver(database.store, done, {});
    await complete(done);
    expect(await drain(webhook)).toEqual(ended(all(done.tokens, 'delivered')));
  });

  test('a receipt that arrives during the report leaves the work due', async () => {
    const webhook = newWebhook();
    const push = await insertFor(webhook, 2);
    const [first, second] = push.tokens as [string, string];
    await deliver(database.store, push, offline(first, second));
    await drain(webhook);
    await acknowledge(database, push, first);
    const reports = await claimDue(webhook);
    await acknowledge(database, push, second);
    // No other process may report the same work meanwhile.
    const others = await database.store.outbox.claim(webhook, LEASE_MS);
    expect(others.map(({ id }) => id)).not.toContain(reports[0]?.id);
    await record([...reports, ...others]);
    const reported = [...reports, ...others].flatMap(describeReport);
    const rest = await drain(webhook);
    expect([...reported, ...rest].sort()).toEqual(all([first, second], 'delivered'));
  });

  test.each(['completed', 'expired'])(
    'receipts from inboxes that were filled before its replay are reported when it is %s',
    async (end) => {
      const webhook = newReplayed();
      const push = await insertPush(database, newTokens(4), { shape });
      const [first, read, second, last] = push.tokens as [string, string, string, string];
      await deliver(database.store, push, offline(first, second, last));
      await database.store.outbox.replay(webhook, range(push), LIMITS);
      expect(await drain(webhook._id)).toEqual([`${read} delivered`]);
      for (const token of [first, second]) await acknowledge(database, push, token);
      if (end === 'expired') await expire(database, push);
      else await acknowledge(database, push, last);
      await complete(push);
      const ofLast = `${last} ${end === 'expired' ? end : 'delivered'}`;
      expect(await drain(webhook._id)).toEqual(
        ended([...all([first, second], 'delivered'), ofLast]),
      );
    },
  );

  test.each(['after', 'before'])(
    'the outcomes of a claim before its replay, which is settled %s the report is recorded, are reported',
    async (order) => {
      const webhook = newReplayed();
      const push = await insertPush(database, newTokens(2), { shape });
      const [id = ''] = push.batchIds;
      const claimed = await database.store.batchTable.claim(id, 'reply', LEASE_MS);
      if (claimed === undefined) throw new Error('not claimed');
      await database.store.outbox.replay(webhook, range(push), LIMITS);
      const reports = await claimDue(webhook._id);
      expect(reports.flatMap(describeReport)).toEqual([]);
      if (order === 'after') await record(reports);
      const { n } = claimed.work;
      await database.store.batchTable.settle({
        ...{ id, claim: claimed.claim, outcomes: new Uint8Array(n).fill(OUTCOMES.delivered) },
        latenciesMs: new Uint32Array(n),
      });
      if (order === 'before') await record(reports);
      await skipDelays(database, webhook._id);
      const tokens = splitTokens(claimed.work.tokens);
      expect(await drain(webhook._id)).toEqual(all(tokens, 'delivered'));
    },
  );
});

test('each webhook has reports of its own, and a lost claim changes nothing', async () => {
  const [up, down] = [newWebhook(), newWebhook()];
  const push = await insertPush(database, newTokens(1), { notify: entriesOf(up, down) });
  await deliver(database.store, push, {}, { finish: true });
  const [report] = await claimDue(down);
  if (report === undefined) throw new Error('nothing is due');
  expect(await drain(up)).toEqual(ended(all(push.tokens, 'delivered')));
  await database.store.outbox.release([{ report, delayMs: 1 }]);
  await record([report]);
  // The claim was released, so its record had no effect.
  expect(await drain(down)).toEqual(ended(all(push.tokens, 'delivered')));
});

test('work that waits for a retry is not claimed early, also when there is more to report', async () => {
  const webhook = newWebhook();
  const push = await insertPush(database, newTokens(1), { notify: entriesOf(webhook) });
  await deliver(database.store, push, offline(...push.tokens));
  const [report] = await claimDue(webhook);
  if (report === undefined) throw new Error('nothing is due');
  await database.store.outbox.release([{ report, delayMs: 3_600_000 }]);
  await acknowledge(database, push, push.tokens[0] ?? '');
  expect(await drain(webhook)).toEqual([]);
  expect(await database.store.outbox.filterDue([webhook])).toEqual([]);
  await skipDelays(database, webhook);
  expect(await drain(webhook)).toEqual([`${push.tokens[0]} delivered`]);
});

test('due work is found by the index alone, which has no entry of a push without webhooks', async () => {
  const webhook = newWebhook();
  for (let n = 0; n < 10; n += 1)
    await deliver(database.store, await insertPush(database, newTokens(1)), {});
  const notify = { $elemMatch: { w: webhook, at: { $lte: new Date() } } };
  const { executionStats } = await database.db
    .collection('pushes')
    .find({ notify, 'notify.at': { $exists: true } }, { hint: NOTIFY_INDEX })
    .explain('executionStats');
  expect(executionStats.totalDocsExamined).toBe(0);
  expect(executionStats.totalKeysExamined).toBeLessThanOrEqual(1);
});

test('a replay reports everything again, also of pushes from before the webhook was created', async () => {
  const webhook = newReplayed();
  const push = await insertPush(database, newTokens(2), { shape: 'in two batches' });
  await deliver(database.store, push, {});
  await complete(push);
  for (const _ of ['first', 'again']) {
    const replayed = await database.store.outbox.replay(webhook, range(push), LIMITS);
    expect(replayed).toEqual({ pushes: 1 });
    expect(await drain(webhook._id)).toEqual(ended(all(push.tokens, 'delivered')));
  }
});

test('one call of a replay marks pushes of a bounded number of recipients, and at least one', async () => {
  const webhook = { _id: newWebhook(), app: APP, events: ['push.finished' as const] };
  const pushes: TestPush[] = [];
  for (const recipients of [1, 1, 3, 1])
    pushes.push(await insertPush(database, newTokens(recipients)));
  const ids = pushes.map(({ id }) => id);
  const marked: number[] = [];
  for (let from = ids[0]?.slice(0, -1); from !== undefined; ) {
    const range = { from, to: `${ids[3]}~` };
    const limits = { pushes: 10, recipients: 2 };
    const replayed = await database.store.outbox.replay(webhook, range, limits);
    marked.push(replayed.pushes);
    from = replayed.last;
  }
  expect(marked).toEqual([2, 1, 1]);
  expect(await database.store.outbox.countPending(webhook._id, 10)).toBe(4);
});

describe('a push past its retention', () => {
  const past = new Date(Date.now() - 1_000);
  let slot = 0;

  async function insertUnreported(
    webhook: string,
    events: readonly WebhookEvent[] = WEBHOOK_EVENTS,
  ): Promise<TestPush> {
    slot += 1;
    await database.db
      .collection<{ _id: string; app: string }>('webhooks')
      .insertOne({ _id: webhook, app: APP, ...{ events: [...events], slot } });
    const push = await insertPush(database, newTokens(2), { notify: entriesOf(webhook) });
    await deliver(database.store, push, {}, { finish: true });
    await database.pushes.updateOne({ _id: push.id }, { $set: { purgeAt: past } });
    return push;
  }
  const purge = () => database.store.retention.purge(10, database.store.outbox.keepUnreported);
  const isStored = async ({ id }: TestPush) =>
    (await database.pushes.findOne({ _id: id })) !== null;

  test('is kept until its events are reported, and is removed then', async () => {
    const webhook = newWebhook();
    const push = await insertUnreported(webhook);
    await purge();
    expect(await isStored(push)).toBe(true);
    expect(await drain(webhook)).toHaveLength(3);
    await database.pushes.updateOne({ _id: push.id }, { $set: { purgeAt: past } });
    await purge();
    expect(await isStored(push)).toBe(false);
  });

  const expireKeeping = ({ id }: TestPush) =>
    database.pushes.updateOne({ _id: id }, { $set: { keepUntil: past } });
  const turnOff = (_: TestPush, webhook: string) => database.store.webhooks.turnOffOf(APP, webhook);

  test.each([
    ['after three days', WEBHOOK_EVENTS, expireKeeping, 3],
    ['at once when its webhook is off', WEBHOOK_EVENTS, turnOff, 3],
    ['with the events that are wanted', ['push.finished', 'recipient.failed'], expireKeeping, 1],
  ] as const)(
    'is removed %s, which are counted as dropped',
    async (_what, events, change, count) => {
      const webhook = newWebhook();
      const before = processCounts.webhookEventsDropped;
      const push = await insertUnreported(webhook, events);
      await change(push, webhook);
      await purge();
      expect(await isStored(push)).toBe(false);
      expect(await database.store.webhooks.find(webhook)).toMatchObject({ dropped: count });
      expect(processCounts.webhookEventsDropped - before).toBe(count);
    },
  );
});

describe('events of a device', () => {
  const app = 'd'.repeat(24);

  /** Adds a webhook that this process knows. */
  async function addKnown(): Promise<string> {
    const _id = newWebhook();
    const box = { key: 1, nonce: '', text: '', tag: '', from: '' };
    await database.store.webhooks.create({
      ...{ _id, app: app, address: box, host: 'example.org', secret: box },
      events: ['device.registered', 'device.uninstalled', 'device.deleted'],
    });
    await database.store.knownWebhooks.refresh();
    return _id;
  }

  test('are reported once, and then removed from the device', async () => {
    const { devices, deletedDevices } = database.store;
    const earlier = await devices.register(app, 'android');
    const webhook = await addKnown();
    const address = { channel: 'fcm', address: 'fcm1' } as const;
    const { token } = await devices.register(app, 'android', address);
    expect(await drain(webhook)).toEqual([`${token} registered`]);
    const gone = { token, address: 'fcm1', flag: 'uninstalled' } as const;
    await devices.flagGone(app, [gone]);
    await devices.flagGone(app, [gone]);
    await deletedDevices.markDeleted(app, earlier.token);
    expect(await drain(webhook)).toEqual(
      [`${token} uninstalled`, `${earlier.token} deleted`].sort(),
    );
    // The same installation registers again, in an app that does not use FCM: the other device is deleted.
    const { token: newer, replaced } = await devices.register(app, 'android', address);
    expect(replaced).toEqual([token]);
    expect(await drain(webhook)).toEqual([`${token} deleted`, `${newer} registered`].sort());
    expect(await devices.find(token)).toMatchObject({ uninstalled: true, notify: [] });
  });

  test('name the former device, which is reported as deleted only when it is', async () => {
    const { devices, deletedDevices } = database.store;
    const webhook = await addKnown();
    const register = () =>
      devices.register(app, 'android', { channel: 'fcm', address: 'fcm3' }, { usesFcm: true });
    const { token: former } = await register();
    await drain(webhook);
    const { token, replaced } = await register();
    expect(replaced).toEqual([former]);
    const reports = await claimDue(webhook);
    const events = reports.flatMap((one) => buildEvents(one, new Set(WEBHOOK_EVENTS)).events);
    expect(events.map(({ body: { type, data } }) => ({ type, ...data }))).toMatchObject([
      { type: 'device.registered', token, replaces: former },
    ]);
    await record(reports);
    await deletedDevices.markDeleted(app, token);
    expect(await drain(webhook)).toEqual([`${token} deleted`]);
    await deletedDevices.clearLeftovers(app, token);
    expect(await drain(webhook)).toEqual([`${former} deleted`]);
  });

  test('are removed with their webhook, and those of other webhooks stay', async () => {
    const [removed, other] = [await addKnown(), await addKnown()];
    const due = (w: string) => ({ w, v: 1, at: new Date(), events: ['registered'] });
    const tokens = newTokens(1_100);
    await database.db.collection<{ _id: string }>('devices').insertMany(
      tokens.map((_id) => ({
        ...{ _id, app, platform: 'android', registeredAt: new Date() },
        notify: [due(removed), due(other)],
      })),
    );
    await database.store.webhooks.remove(app, removed);
    const left = await database.db.collection('devices').distinct('notify.w', { app });
    expect(left).not.toContain(removed);
    expect(await database.store.outbox.countPending(other, 2_000)).toBe(tokens.length);
    await database.store.webhooks.remove(app, other);
    expect(await database.store.outbox.filterDue([removed, other])).toEqual([]);
  });

  test('that occur again during a report are reported again', async () => {
    const webhook = await addKnown();
    const { devices } = database.store;
    const address = { channel: 'fcm', address: 'fcm2' } as const;
    const { token } = await devices.register(app, 'android', address);
    await drain(webhook);
    const gone = { token, address: 'fcm2', flag: 'uninstalled' } as const;
    const uninstall = () => devices.flagGone(app, [gone]);
    await uninstall();
    const reports = await claimDue(webhook);
    // The app is installed and removed again.
    await database.db
      .collection<{ _id: string }>('devices')
      .updateOne({ _id: token }, { $unset: { uninstalled: true } });
    await uninstall();
    await record(reports);
    expect(await drain(webhook)).toEqual([`${token} uninstalled`]);
    const device = await devices.find(token);
    expect(device?.notify?.map(({ w }) => w)).not.toContain(webhook);
  });
});
