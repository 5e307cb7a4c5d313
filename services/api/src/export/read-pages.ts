import { isPushId } from '@carillon/core/ids';
import { DEVICE_TOKEN, TOPIC_NAME } from '@carillon/core/limits';
import { invalidParameter } from '@carillon/core/validate';
import { FIRST_RECIPIENT, type RecipientCursor } from '@carillon/store/recipients';
import type { Store } from '@carillon/store/store';
import { requirePush } from '../outcomes/get-outcomes.ts';
import {
  type ExportKind,
  type ExportRow,
  toDeviceRow,
  toPushRow,
  toRecipientRow,
  toSubscriptionRow,
} from './rows.ts';

/** Collections that exports read. */
export type ExportStore = Pick<Store, 'exportPages' | 'pushOutcomes' | 'recipients'>;

/** Rows that are read at once. */
const ROWS_PER_PAGE = 1_000;
/** The notice that a push is still being resolved ends an export of its recipients. */
export const INCOMPLETE = Symbol('incomplete');

/** Formats one row as text. */
type FormatRow = (row: ExportRow) => string;

/**
 * Text of the pages of an export in order. Each is read by itself, so that a slow client holds no cursor of MongoDB. A
 * document is formatted as soon as it is read: whole pages of objects would outlive the collection of young memory.
 */
export type ExportPages = AsyncGenerator<string, typeof INCOMPLETE | undefined>;

/** What is exported, and behind which row it begins; `push` only for recipients. */
export interface ExportRequest {
  app: string;
  after: string | undefined;
  push: string | undefined;
}

/**
 * Checks a request and returns the pages, none of which is read yet.
 *
 * @throws ApiError INVALID_PARAM, INVALID_PUSH_ID
 */
export async function openPages(
  store: ExportStore,
  kind: ExportKind,
  request: ExportRequest,
  format: FormatRow,
): Promise<ExportPages> {
  const { app, after = '' } = request;
  if (kind === 'recipients') return openRecipients(store, request, format);
  if (after !== '' && !IS_KEY[kind](after)) throw invalidAfter();
  const { exportPages } = store;
  switch (kind) {
    case 'devices':
      return readByKey(after, (key) => exportPages.streamDevices(app, key, ROWS_PER_PAGE), {
        toRow: toDeviceRow,
        format,
      });
    case 'subscriptions':
      return readByKey(after, (key) => exportPages.streamSubscriptions(app, key, ROWS_PER_PAGE), {
        toRow: toSubscriptionRow,
        format,
      });
    case 'pushes':
      return readByKey(after, (key) => exportPages.streamPushes(app, key, ROWS_PER_PAGE), {
        toRow: toPushRow,
        format,
      });
  }
}

const IS_KEY = {
  devices: (text: string) => DEVICE_TOKEN.test(text),
  subscriptions: (text: string) => {
    const [topic = '', token = '', ...rest] = text.split(':');
    return TOPIC_NAME.test(topic) && DEVICE_TOKEN.test(token) && rest.length === 0;
  },
  pushes: isPushId,
};

function invalidAfter() {
  return invalidParameter('after', 'must name the last row of an earlier export');
}

async function* readByKey<T>(
  after: string,
  readPage: (after: string) => AsyncIterable<T>,
  { toRow, format }: { toRow: (document: T) => ExportRow; format: FormatRow },
): ExportPages {
  let key = after;
  for (;;) {
    const lines: string[] = [];
    for await (const document of readPage(key)) {
      const row = toRow(document);
      key = row.key;
      lines.push(format(row));
    }
    yield lines.join('');
    if (lines.length < ROWS_PER_PAGE) return undefined;
  }
}

async function openRecipients(
  store: ExportStore,
  { app, after, push: id }: ExportRequest,
  format: FormatRow,
): Promise<ExportPages> {
  if (id === undefined) throw invalidParameter('push', 'is missing; it must be the id of a push');
  const push = await requirePush(store, app, id);
  if (after === undefined) return readRecipients(store, { app, id, format }, FIRST_RECIPIENT);
  const found = DEVICE_TOKEN.test(after)
    ? await store.recipients.findPosition(push, after)
    : undefined;
  if (found === undefined) throw invalidAfter();
  const from = { ...found, position: found.position + 1 };
  return readRecipients(store, { app, id, format }, from);
}

async function* readRecipients(
  store: ExportStore,
  { app, id, format }: { app: string; id: string; format: FormatRow },
  from: RecipientCursor,
): ExportPages {
  let cursor = from;
  for (;;) {
    // Read again for each page: batches are added while its topics are resolved.
    const push = await requirePush(store, app, id);
    const { recipients, next } = await store.recipients.readPage(push, cursor, ROWS_PER_PAGE);
    yield recipients.map((recipient) => format(toRecipientRow(recipient))).join('');
    if (next === undefined) return undefined;
    if (recipients.length === 0) return INCOMPLETE;
    cursor = next;
  }
}
