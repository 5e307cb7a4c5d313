import { isBatchId } from '@carillon/core/ids';
import { WEBHOOK_EVENTS } from '@carillon/core/webhooks';
import type { DeviceEvent, WebhookDocument } from '@carillon/store/documents';
import { buildEvents, type EventBody } from './events.ts';
import type { StoredEntries } from './outbox.ts';
import type { WebhookRequestDocument } from './requests.ts';
import type { WebhookStore } from './webhook-store.ts';

/** Id of an event with a number: a push's end has none. */
const ID = /^(.+)\.(\d+)\.(\w+)$/;
const ALL_EVENTS = new Set(WEBHOOK_EVENTS);

/** A test event. */
export interface TestEvent {
  id: string;
  type: 'test';
  data: { app: string };
}

/** Builds the test event that was requested at a time. */
export function buildTestEvent(
  { _id, app }: Pick<WebhookDocument, '_id' | 'app'>,
  at: Date,
): TestEvent {
  return { id: `${_id}.test.${at.getTime()}`, type: 'test', data: { app } };
}

/**
 * Builds the events of a request again, with the same ids, from what is stored now. Left out are events whose push or
 * device is gone, and those of recipients that have another outcome since: it has an event of its own.
 */
export async function rebuildEvents(
  { outbox }: Pick<WebhookStore, 'outbox'>,
  webhook: Pick<WebhookDocument, '_id' | 'app'>,
  { events: ids, types }: Pick<WebhookRequestDocument, 'events' | 'types'>,
): Promise<(EventBody | TestEvent)[]> {
  if (types.some(({ type }) => type === 'test'))
    return ids.map((id) =>
      buildTestEvent(webhook, new Date(Number(id.slice(id.lastIndexOf('.') + 1)))),
    );
  const reports = await outbox.readAgain(entriesOf(webhook._id, ids));
  const built = reports.flatMap((report) => buildEvents(report, ALL_EVENTS).events);
  const byId = new Map(built.map(({ body }) => [body.id, body]));
  return ids.flatMap((id) => byId.get(id) ?? []);
}

/** Returns the documents that events are about, each with an entry as if nothing of it was reported. */
function entriesOf(w: string, ids: readonly string[]): StoredEntries {
  const entries: StoredEntries = { pushes: new Map(), batches: new Map(), devices: new Map() };
  for (const id of ids) {
    // As events.ts makes them: `<push>.finished`, `<push or batch>.<position>.<outcome>`, `<device>.<time>.<event>`.
    const [, document = id.slice(0, id.lastIndexOf('.')), middle, end] = ID.exec(id) ?? [];
    if (end === undefined || /\d/.test(end)) {
      entries[isBatchId(document) ? 'batches' : 'pushes'].set(document, { w, r: true, v: 0 });
      continue;
    }
    const { events = [], times = [] } = entries.devices.get(document) ?? {};
    const event = end as DeviceEvent;
    entries.devices.set(document, {
      ...{ w, v: 0, events: [...events, event] },
      times: [...times, { event, at: new Date(Number(middle)) }],
    });
  }
  return entries;
}
