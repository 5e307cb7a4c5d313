import { isPushId } from '@carillon/core/ids';
import { DEVICE_TOKEN, TOPIC_NAME } from '@carillon/core/limits';
import { invalidParameter } from '@carillon/core/validate';
import { FIRST_RECIPIENT, type RecipientCursor } from '@carillon/reports/recipients';
import type { Reports } from '@carillon/reports/reports';
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
export type ExportStore = Pick<Reports, 'exportPages' | 'pushOutcomes' | 'recipients'>;

/**
 * Rows that are read at once. The driver keeps the whole page, and an index of each of its documents, until the last
 * one is taken. Recipients are stored by the thousand.
 */
const ROWS_PER_PAGE: Readonly<Record<ExportKind, number>> = {
  devices: 250,
  subscriptions: 250,
  pushes: 100,
  recipients: 1_000,
};
/**
 * Maximum length of a text before it is sent. A larger text that a collection of young memory meets is moved to old
 * memory as a whole, where it stays for long.
 */
const MAX_PIECE_CHARACTERS = 65_536;
/** Result of an export of recipients that ends because a push is still being resolved. */
export const INCOMPLETE = Symbol('incomplete');

/** Formats one row as text. */
type FormatRow = (row: ExportRow) => string;

/**
 * Text of an export in order, in pieces. Each page is read by itself, so that a slow client holds no cursor of MongoDB. A
 * document is formatted as soon as it is read: whole pages of objects would outlive the collection of young memory.
 */
export type ExportPages = AsyncGenerator<string, typeof INCOMPLETE | undefined>;

/** Rows to export: those of an app after `after`; `push` only for recipients. */
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
  const { streamDevices, streamSubscriptions, streamPushes } = store.exportPages;
  const range = { app, after, limit: ROWS_PER_PAGE[kind], format };
  switch (kind) {
    case 'devices':
      return readByKey(range, streamDevices, toDeviceRow);
    case 'subscriptions':
      return readByKey(range, streamSubscriptions, toSubscriptionRow);
    case 'pushes':
      return readByKey(range, streamPushes, toPushRow);
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
  { app, after, limit, format }: { app: string; after: string; limit: number; format: FormatRow },
  readPage: (app: string, after: string, limit: number) => AsyncIterable<T>,
  toRow: (document: T) => ExportRow,
): ExportPages {
  let key = after;
  let rows: number;
  do {
    rows = 0;
    let text = '';
    for await (const document of readPage(app, key, limit)) {
      const row = toRow(document);
      key = row.key;
      rows += 1;
      text += format(row);
      if (text.length < MAX_PIECE_CHARACTERS) continue;
      yield text;
      text = '';
    }
    if (text !== '') yield text;
  } while (rows === limit);
  return undefined;
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
    const limit = ROWS_PER_PAGE.recipients;
    const { recipients, next } = await store.recipients.readPage(push, cursor, limit);
    yield recipients.map((recipient) => format(toRecipientRow(recipient))).join('');
    if (next === undefined) return undefined;
    if (recipients.length === 0) return INCOMPLETE;
    cursor = next;
  }
}
