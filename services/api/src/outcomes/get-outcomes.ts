import { toUnixSeconds } from '@carillon/accept/push-visibility';
import { ApiError } from '@carillon/core/api-error';
import { toReportedState } from '@carillon/core/batch';
import { isPushId, pushIdFrom } from '@carillon/core/ids';
import { DEVICE_TOKEN, LIMITS } from '@carillon/core/limits';
import { invalidParameter, validate } from '@carillon/core/validate';
import type { ReportedListPush, ReportedPush } from '@carillon/reports/push-outcomes';
import {
  formatRecipientCursor,
  parseRecipientCursor,
  type ReportedAttempt,
  type TriedRecipient,
} from '@carillon/reports/recipients';
import type { Reports } from '@carillon/reports/reports';
import type { Store } from '@carillon/store/store';
import { assertDeviceOf } from '../devices/get-device-info.ts';
import { devicePushesQuery, pushListQuery, recipientsQuery } from './schema.ts';

/** Collections that outcomes are read from. */
export type OutcomesStore = Pick<Reports, 'pushOutcomes' | 'recipients'>;

type Query = Record<string, string | undefined>;

/** Text that sorts after every push id, which is hexadecimal. */
const AFTER_ALL_PUSH_IDS = 'g';
const PUSHES_PER_PAGE = 100;
const RECIPIENTS_PER_PAGE = LIMITS.subscribersPerPage;

/**
 * Handles `GET /pushes`. Lists the app's pushes, the newest first.
 *
 * @throws ApiError INVALID_PARAM
 */
export async function listPushes(
  { pushOutcomes }: Pick<Reports, 'pushOutcomes'>,
  app: string,
  query: Query,
): Promise<object> {
  const { from = 0, to, state, page } = validate(pushListQuery, query);
  const before = to === undefined ? AFTER_ALL_PUSH_IDS : pushIdFrom(to * 1_000);
  const { pushes, next } = await pushOutcomes.list({
    app,
    from: pushIdFrom(from * 1_000),
    before: page !== undefined && page < before ? page : before,
    state,
    limit: PUSHES_PER_PAGE,
  });
  return { pushes: pushes.map(describePush), ...(next !== undefined && { next_page: next }) };
}

/**
 * Handles `GET /pushes/<push_id>/outcomes`. Counts the recipients as long as the push's documents are kept.
 *
 * @throws ApiError INVALID_PUSH_ID
 */
export async function getOutcomes(
  store: OutcomesStore,
  app: string,
  pushId: string,
): Promise<object> {
  const push = await requirePush(store, app, pushId);
  const { latency, ...summary } = await store.pushOutcomes.summarize(push);
  return {
    push: describePush(push),
    resolved: push.fan.done,
    ...summary,
    ...(latency !== undefined && describeLatency(push, latency)),
  };
}

/**
 * Handles `GET /pushes/<push_id>/recipients`. Returns a page of recipients in the order in which they are stored.
 *
 * @throws ApiError INVALID_PUSH_ID, INVALID_PARAM
 */
export async function listRecipients(
  store: OutcomesStore,
  app: string,
  pushId: string,
  query: Query,
): Promise<object> {
  const { outcome, page } = validate(recipientsQuery, query);
  const cursor = parseRecipientCursor(page);
  if (cursor === undefined)
    throw invalidParameter('page', 'must be the next_page of an earlier response');
  const push = await requirePush(store, app, pushId);
  const { readPage } = store.recipients;
  const { recipients, next } = await readPage(push, cursor, RECIPIENTS_PER_PAGE, outcome);
  return { recipients, ...(next !== undefined && { next_page: formatRecipientCursor(next) }) };
}

/**
 * Handles `GET /pushes/<push_id>/recipients/<device_token>`. Returns one recipient with its attempts.
 *
 * @throws ApiError INVALID_PUSH_ID, INVALID_DEVICE_TOKEN
 */
export async function getRecipient(
  store: OutcomesStore,
  app: string,
  pushId: string,
  token: string,
): Promise<object> {
  const push = await requirePush(store, app, pushId);
  const found = DEVICE_TOKEN.test(token) ? await store.recipients.findOne(push, token) : undefined;
  if (found === undefined) throw new ApiError('INVALID_DEVICE_TOKEN');
  return { recipient: describeRecipient(found) };
}

/**
 * Handles `GET /devices/<device_token>/pushes`. Lists the pushes to a device with its outcome, the newest first.
 *
 * @throws ApiError INVALID_PARAM, INVALID_DEVICE_TOKEN, APP_MISMATCH
 */
export async function listDevicePushes(
  store: Pick<Store, 'devices'> & Pick<Reports, 'pushesOfDevice'>,
  app: string,
  token: string,
  query: Query,
): Promise<object> {
  const { page = AFTER_ALL_PUSH_IDS } = validate(devicePushesQuery, query);
  await assertDeviceOf(store, app, token);
  const { pushes, next } = await store.pushesOfDevice.list({
    ...{ app, token, before: page, limit: PUSHES_PER_PAGE },
  });
  return {
    pushes: pushes.map(({ push, recipient }) => ({
      ...describePush(push),
      recipient: describeRecipient(recipient),
    })),
    ...(next !== undefined && { next_page: next }),
  };
}

/** Finds a push of the app. @throws ApiError INVALID_PUSH_ID */
export async function requirePush(
  { pushOutcomes }: Pick<Reports, 'pushOutcomes'>,
  app: string,
  id: string,
): Promise<ReportedPush> {
  const push = isPushId(id) ? await pushOutcomes.find(app, id) : undefined;
  if (push === undefined) throw new ApiError('INVALID_PUSH_ID');
  return push;
}

/** Returns a push with the names and times of the API. */
export function describePush(push: ReportedListPush) {
  const { dueAt, finishedAt, topics, counts } = push;
  const { pending: untried = 0, inbox = 0, ...ended } = counts ?? {};
  const pending = untried + inbox;
  return {
    id: push._id,
    state: toReportedState(push),
    date: toUnixSeconds(push.acceptedAt),
    ...(dueAt !== undefined && { schedule: toUnixSeconds(dueAt) }),
    expiration: toUnixSeconds(push.expiresAt),
    ...(finishedAt !== undefined && { finished: toUnixSeconds(finishedAt) }),
    devices: push.devices,
    ...(topics !== undefined && { topics }),
    ...(counts !== undefined && { outcomes: { ...ended, ...(pending > 0 && { pending }) } }),
  };
}

interface Latency {
  count: number;
  min: number;
  p50: number;
  p90: number;
  p99: number;
  max: number;
}

function describeLatency(
  { dueAt, acceptedAt }: ReportedPush,
  { min, ...latency }: Latency,
): object {
  const startMs = (dueAt ?? acceptedAt).getTime();
  return {
    latency,
    first_receipt: toUnixSeconds(new Date(startMs + min)),
    last_receipt: toUnixSeconds(new Date(startMs + latency.max)),
  };
}

function describeRecipient({ attempts, ...recipient }: TriedRecipient): object {
  return { ...recipient, attempts: attempts.map(describeAttempt) };
}

function describeAttempt({ nextTryAt, ...attempt }: ReportedAttempt): object {
  if (nextTryAt === undefined) return attempt;
  return { ...attempt, next_try: toUnixSeconds(new Date(nextTryAt)) };
}
