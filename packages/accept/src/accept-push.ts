import { createHash } from 'node:crypto';
import { ApiError } from '@carillon/core/api-error';
import { collapseHash, joinTokens } from '@carillon/core/batch';
import { type Channel, channelFor, wayOf } from '@carillon/core/channels';
import { failpoint } from '@carillon/core/failpoint';
import { newPushId } from '@carillon/core/ids';
import { visitInParts } from '@carillon/core/in-parts';
import { canonicalizeJson } from '@carillon/core/json-text';
import { LIMITS } from '@carillon/core/limits';
import { countAccepted } from '@carillon/core/process-counts';
import { CONTACT_WARNING } from '@carillon/core/web-push-contact';
import type { Producers } from '@carillon/queue/producers';
import { createEmbeddedBatch } from '@carillon/store/create-batches';
import { isWithinReach, type Recipient } from '@carillon/store/device-ways';
import type { PushDocument } from '@carillon/store/documents';
import { packFailed, unpackFailed } from '@carillon/store/failed-tokens';
import { PushIdInUse } from '@carillon/store/pushes';
import type { Store } from '@carillon/store/store';
import { acceptInBatches } from './accept-in-batches.ts';
import { createNoRecipientsError } from './explain-no-recipients.ts';
import type { PushRequest } from './parse-push.ts';
import type { AcceptedPush } from './schema.ts';

/** Collections that resolving an audience reads. */
type AudienceStore = Pick<Store, 'devices' | 'topics' | 'subscriptions'>;

/** Recipients of a push. */
interface Audience {
  /** Devices that are resolved now, without duplicates. */
  recipients: Recipient[];
  /** Topics that the fan-out resolves. */
  topics: string[];
  /** Limits these to subscribers that were seen so long before the push is sent. */
  activeWithinSeconds?: number;
  /** `info.devices`. */
  devices: number;
  /** Channels of the recipients; of those that the fan-out resolves, the channels of their platforms. */
  channels: ReadonlySet<Channel>;
}

/** Collections that accepting a push reads and writes. */
export type AcceptPushStore = AudienceStore &
  Pick<Store, 'pushes' | 'batches' | 'credentials' | 'knownWebhooks' | 'clock'>;

/** A client's idempotency key and the body it came with; a repeated request is recognised by them (guarantee G2). */
export interface Idempotency {
  key: string;
  /** SHA-256 of the request body's canonical text, hex. */
  bodyHash: string;
}

/** Request that a push comes from. */
export interface PushOrigin extends Pick<PushDocument, 'by'> {
  idempotency?: Idempotency | undefined;
  /** Context of the request's span (`traceparent`), if the request is traced. */
  trace?: string | undefined;
  /** The app uses FCM for Android, and has a credential for it. */
  usesFcm?: boolean;
  /** Push services may refuse the app's signatures: a sender to browsers is warned. */
  lacksWebPushContact?: boolean;
  /**
   * Is called after each query of a large audience, before anything is stored, and before a push of many batches is
   * committed; throws if no client waits for the result any more.
   */
  assertAwaited?: () => void;
}

/** Thrown for a push that repeats an earlier one after the end of that one; nothing is stored. */
export class PushExpiredError extends Error {}

const KEY_PATTERN = /^[\x20-\x7e]{1,255}$/;
/**
 * Retry-After for an idempotency key whose first request is still being accepted: it is committed or abandoned within
 * seconds, even if its process dies.
 */
const RETRY_AFTER_SECONDS = 1;
/** Maximum subscribers of all topics of a push that are resolved when the push is accepted, like tokens. */
const MAX_RESOLVED_SUBSCRIBERS = 1_000;
/** Maximum recipients for which `info.devices` excludes duplicates; above it the topics' counters are added up. */
const MAX_EXACT_COUNT = 10_000;
/**
 * Delay of a due check after the due time: a check that runs slightly early finds nothing due, and the push then waits
 * for the next periodic check.
 */
const DUE_MARGIN_MS = 30;
/**
 * Maximum delay of a due check's job. Pushes due later wait for the periodic check, so that Redis does not hold a year
 * of delayed jobs.
 */
const MAX_DUE_JOB_DELAY_MS = 86_400_000;

/**
 * Reads the header `Idempotency-Key`. The same JSON with its keys in another order is the same body: some clients
 * serialize a map anew for each try.
 *
 * @param bodyText must be valid JSON
 * @throws ApiError INVALID_PARAM
 */
export function parseIdempotencyKey(
  header: string | undefined,
  bodyText: string,
): Idempotency | undefined {
  if (header === undefined) return undefined;
  if (!KEY_PATTERN.test(header)) {
    throw new ApiError('INVALID_PARAM', 'The Idempotency-Key must be 1 to 255 ASCII characters.');
  }
  const text = canonicalizeJson(bodyText);
  return { key: header, bodyHash: createHash('sha256').update(text).digest('hex') };
}

/**
 * Returns the response of an earlier request with the same idempotency key; undefined for a new request. Runs before
 * the request is parsed: since the first request its schedule may have passed and its audience may have changed
 * (guarantee G2).
 *
 * @param tokens returns the request's tokens without duplicates; called only if they are needed
 * @throws ApiError INVALID_PARAM, SERVICE_UNAVAILABLE
 */
export async function replayIdempotent(
  store: Pick<Store, 'pushes'>,
  app: string,
  idempotency: Idempotency | undefined,
  tokens: () => Promise<readonly string[]>,
): Promise<AcceptedPush | undefined> {
  if (idempotency === undefined) return undefined;
  const existing = await store.pushes.findByIdempotencyKey(app, idempotency.key);
  if (existing === undefined) return undefined;
  // A different body may be invalid, so its tokens are not parsed.
  const isSameBody = existing.idempotency?.bodyHash === idempotency.bodyHash;
  return repeatResponse(existing, idempotency, isSameBody ? await tokens() : []);
}

/**
 * Accepts a push: when it returns, the push and its recipients are stored in MongoDB with majority write concern and
 * journal (guarantee G1). The queued job only speeds up delivery; without it the reconciler finds the push.
 *
 * @throws ApiError NO_RECIPIENTS, NO_APNS_AUTH, INVALID_PARAM (the idempotency key was used with another body),
 *   INTERNAL_SERVER_ERROR if accepting took so long that the push was abandoned; PushExpiredError
 */
export async function acceptPush(
  store: AcceptPushStore,
  producers: Producers,
  app: string,
  request: PushRequest,
  origin: PushOrigin = {},
): Promise<AcceptedPush> {
  const { idempotency, trace, usesFcm = false, lacksWebPushContact = false } = origin;
  const { assertAwaited = () => undefined } = origin;
  const audience = await resolveAudience(store, app, request, usesFcm, assertAwaited);
  if (audience.devices === 0) throw await createNoRecipientsError(store, app, request);
  await requireAppleCredential(store, app, audience, usesFcm);
  const isWarned = lacksWebPushContact && audience.channels.has('web-push');
  const isKnown = createTokenCheck(request, audience.recipients);
  const failed = request.tokens.filter((token) => !isKnown(token));
  const push = buildPush(app, request, audience.devices, store.clock.now());
  if (trace !== undefined) push.trace = trace;
  if (origin.by !== undefined) push.by = origin.by;
  const notify = store.knownWebhooks.pushEntries(app);
  if (notify.length > 0) push.notify = notify;
  if (idempotency !== undefined) {
    const failedBits = packFailed(request.tokens, isKnown);
    push.idempotency = {
      ...idempotency,
      ...(failedBits && { failed: failedBits }),
      ...(isWarned && { warned: true as const }),
    };
  }
  const existing = await storeUnderFreeId(store, push, () => {
    assertAwaited();
    const chooseChannel = (one: Recipient) => request.channel ?? wayOf(one, usesFcm);
    return storePush(store, push, audience, chooseChannel, assertAwaited);
  });
  if (existing !== undefined) return repeatResponse(existing, idempotency, request.tokens);
  failpoint('accepted');
  countAccepted(app);
  if (request.dueAtMs !== undefined) void scheduleDueCheck(store, producers, request.dueAtMs);
  else void enqueuePush(producers, push);
  return createResponse(push, failed, isWarned);
}

/** @throws ApiError NO_APNS_AUTH if a recipient goes through APNs, and the app has no credential for it */
async function requireAppleCredential(
  { credentials, devices }: Pick<Store, 'credentials' | 'devices'>,
  app: string,
  { channels, recipients, topics }: Audience,
  usesFcm: boolean,
): Promise<void> {
  if (!channels.has('apns') || (await credentials.has(app, 'apns'))) return;
  // The fan-out finds the ways of a topic's subscribers: those on iOS may go by FCM.
  const isKnown = topics.length === 0 || channelsOf(recipients, usesFcm).has('apns');
  if (isKnown || !(await devices.hasAppleByFcm(app))) throw new ApiError('NO_APNS_AUTH');
}

/** Creates the check whether a token of the request is a recipient's. */
function createTokenCheck(
  { tokens, topics }: Pick<PushRequest, 'tokens' | 'topics'>,
  recipients: readonly Recipient[],
): (token: string) => boolean {
  // Both are without duplicates, and without topics each recipient has one of the tokens.
  if (topics.length === 0 && recipients.length === tokens.length) return () => true;
  const knownTokens = new Set(recipients.map(({ token }) => token));
  return (token) => knownTokens.has(token);
}

/**
 * Returns the response to the first request with this idempotency key (guarantee G2).
 *
 * @throws ApiError INVALID_PARAM for a different body, SERVICE_UNAVAILABLE while the first request is in progress
 */
function repeatResponse(
  existing: PushDocument,
  idempotency: Idempotency | undefined,
  tokens: readonly string[],
): AcceptedPush {
  if (existing.idempotency?.bodyHash !== idempotency?.bodyHash) {
    throw new ApiError('INVALID_PARAM', 'The Idempotency-Key was used with another request body.');
  }
  // Another request is still accepting this push, so its result is not known yet.
  if (existing.state === 'accepting') {
    throw new ApiError('SERVICE_UNAVAILABLE', undefined, RETRY_AFTER_SECONDS);
  }
  const failed = unpackFailed(tokens, existing.idempotency?.failed);
  return createResponse(existing, failed, existing.idempotency?.warned === true);
}

function createResponse(
  { _id: id, devices }: PushDocument,
  failed: string[],
  isWarned: boolean,
): AcceptedPush {
  const info = { devices, failed, ...(isWarned && { warnings: [CONTACT_WARNING] }) };
  return { success: true, id, info };
}

/** Resolves tokens and small topics. Topics of a scheduled push are resolved when it is due. */
async function resolveAudience(
  store: AudienceStore,
  app: string,
  request: Pick<PushRequest, 'tokens' | 'topics' | 'dueAtMs' | 'activeWithinSeconds'>,
  usesFcm: boolean,
  assertAwaited: () => void,
): Promise<Audience> {
  const found = await findTokenRecipients(store, app, request.tokens, assertAwaited);
  const tokenRecipients: Recipient[] = [];
  await visitInParts(found, (one) => {
    if (isWithinReach(one, usesFcm)) tokenRecipients.push(one);
  });
  if (request.topics.length === 0) return createResolvedAudience(tokenRecipients, usesFcm);
  const counters = await store.topics.findCounters(app, request.topics);
  const getSubscriberCount = (topic: string) => counters.get(topic)?.subscribers ?? 0;
  const topics = request.topics.filter((topic) => getSubscriberCount(topic) > 0);
  const subscriberCount = topics.reduce((sum, topic) => sum + getSubscriberCount(topic), 0);
  const isScheduled = request.dueAtMs !== undefined;
  const { activeWithinSeconds } = request;
  // The fan-out knows who was seen, at the time at which the push is sent.
  const isResolvedLater = isScheduled || activeWithinSeconds !== undefined;
  if (subscriberCount <= MAX_RESOLVED_SUBSCRIBERS && !isResolvedLater) {
    const subscribers = await findSubscribers(store, app, tokenRecipients, topics);
    const withWays = await store.devices.addWays(app, subscribers, usesFcm);
    return createResolvedAudience([...tokenRecipients, ...withWays], usesFcm);
  }
  const total = tokenRecipients.length + subscriberCount;
  const isEstimate =
    total > MAX_EXACT_COUNT || (tokenRecipients.length === 0 && topics.length === 1);
  return {
    recipients: tokenRecipients,
    // A topic that is empty now may have subscribers when a scheduled push is due.
    topics: isScheduled ? request.topics : topics,
    ...(activeWithinSeconds !== undefined && { activeWithinSeconds }),
    devices: isEstimate
      ? total
      : tokenRecipients.length +
        (await findSubscribers(store, app, tokenRecipients, topics)).length,
    channels: new Set([
      ...channelsOf(tokenRecipients, usesFcm),
      ...topics.flatMap((topic) => counters.get(topic)?.platforms ?? []).map(channelFor),
    ]),
  };
}

function createResolvedAudience(recipients: Recipient[], usesFcm: boolean): Audience {
  return {
    recipients,
    topics: [],
    devices: recipients.length,
    channels: channelsOf(recipients, usesFcm),
  };
}

function channelsOf(recipients: readonly Recipient[], usesFcm: boolean): Set<Channel> {
  const channels = new Set<Channel>();
  for (const recipient of recipients) channels.add(wayOf(recipient, usesFcm));
  return channels;
}

/** Finds the devices of tokens. @param assertAwaited is called after each query of many */
export async function findTokenRecipients(
  { devices }: Pick<Store, 'devices'>,
  app: string,
  tokens: readonly string[],
  assertAwaited: () => void,
): Promise<Recipient[]> {
  const [onlyToken] = tokens;
  if (onlyToken === undefined) return [];
  if (tokens.length > 1) return devices.findRecipients(app, tokens, assertAwaited);
  const device = await devices.findRecipient(app, onlyToken);
  return device === undefined ? [] : [device];
}

/** Finds the subscribers of topics that are no recipients yet, each once. */
async function findSubscribers(
  { subscriptions }: AudienceStore,
  app: string,
  tokenRecipients: readonly Recipient[],
  topics: readonly string[],
): Promise<Recipient[]> {
  const tokens = new Set(tokenRecipients.map(({ token }) => token));
  const subscribers: Recipient[] = [];
  for (const topic of topics) {
    for await (const subscriber of subscriptions.stream(app, topic, '')) {
      if (tokens.size > MAX_EXACT_COUNT + LIMITS.tokensPerPush) break;
      if (tokens.has(subscriber.token)) continue;
      tokens.add(subscriber.token);
      subscribers.push(subscriber);
    }
  }
  return subscribers;
}

/** Calls `storeIt` again with another id of the push for as long as another push has its id. */
async function storeUnderFreeId<T>(
  { clock }: Pick<Store, 'clock'>,
  push: PushDocument,
  storeIt: () => Promise<T>,
): Promise<T> {
  for (;;) {
    try {
      return await storeIt();
    } catch (error) {
      if (!(error instanceof PushIdInUse)) throw error;
      push._id = newPushId(clock.now(), push.dueAt?.getTime());
    }
  }
}

/**
 * Stores a push with its recipients: in one document if they fit one batch, else in several. Returns the earlier push with
 * the same idempotency key, if there is one; then nothing is stored.
 */
async function storePush(
  store: AcceptPushStore,
  push: PushDocument,
  audience: Audience,
  chooseChannel: (recipient: Recipient) => Channel,
  assertAwaited: () => void,
): Promise<PushDocument | undefined> {
  failpoint('accept');
  const tokensByChannel = await groupByChannel(audience.recipients, chooseChannel);
  const [onlyGroup] = tokensByChannel;
  const fitsOneBatch =
    tokensByChannel.size === 1 && audience.recipients.length <= LIMITS.batchRecipients;
  if (onlyGroup !== undefined && fitsOneBatch && audience.topics.length === 0) {
    Object.assign(push, createEmbeddedBatch(...onlyGroup, 'ready', notBefore(push)));
    return store.pushes.insert(push);
  }
  push.fan = { at: notBefore(push), seq: 0, next: 0, done: false };
  if (audience.topics.length > 0) {
    const tokens = joinTokens(audience.recipients.map(({ token }) => token));
    const { topics, activeWithinSeconds: seconds } = audience;
    push.audience = {
      topics,
      tokens,
      ...(seconds !== undefined && { activeWithinSeconds: seconds }),
    };
  }
  return acceptInBatches(store, push, tokensByChannel, notBefore(push), assertAwaited);
}

/** Enqueues a push. A batch for a provider skips the `send` queue, so that a slow provider does not delay it. */
function enqueuePush(producers: Producers, { _id: id, app, work }: PushDocument): Promise<void> {
  if (work === undefined) return producers.fanOut({ app, id });
  const { channel, n: recipients } = work;
  return channel === 'mqtt'
    ? producers.send({ app, id, recipients })
    : producers.deliver({ app, id, channel, recipients });
}

/** Schedules a check for due pushes at the due time, so that the push does not wait for the periodic check. */
async function scheduleDueCheck(
  { clock }: Pick<Store, 'clock'>,
  producers: Producers,
  dueAtMs: number,
): Promise<void> {
  const delayMs = dueAtMs - clock.now() + DUE_MARGIN_MS;
  if (delayMs < MAX_DUE_JOB_DELAY_MS) await producers.scheduleDueCheck(dueAtMs / 1_000, delayMs);
}

async function groupByChannel(
  recipients: readonly Recipient[],
  chooseChannel: (recipient: Recipient) => Channel,
): Promise<Map<Channel, string[]>> {
  const groups = new Map<Channel, string[]>();
  await visitInParts(recipients, (recipient) => {
    const { token } = recipient;
    const channel = chooseChannel(recipient);
    const group = groups.get(channel);
    if (group === undefined) groups.set(channel, [token]);
    else group.push(token);
  });
  return groups;
}

/** Returns the earliest time at which the push may be sent. */
function notBefore(push: PushDocument): Date {
  return push.dueAt ?? push.acceptedAt;
}

/** Builds the push document without its recipients. @throws PushExpiredError */
function buildPush(
  app: string,
  request: PushRequest,
  devices: number,
  nowMs: number,
): PushDocument {
  const startMs = request.dueAtMs ?? nowMs;
  const { data, options, topics } = request;
  const collapseKey = options?.collapse_key;
  return {
    // A scheduled push counts as created when it is due, for its collapse key and for its order in an inbox.
    _id: newPushId(nowMs, request.dueAtMs),
    app,
    state: request.dueAtMs === undefined ? 'open' : 'scheduled',
    acceptedAt: new Date(nowMs),
    ...(request.dueAtMs !== undefined && { dueAt: new Date(request.dueAtMs) }),
    ...computeEnds(request, startMs),
    data,
    ...(options !== undefined && { options }),
    ...(request.channel !== undefined && { channel: request.channel }),
    ...(collapseKey !== undefined && { collapse: collapseHash(app, collapseKey) }),
    ...(topics.length > 0 && { topics }),
    devices,
    fan: { seq: 0, next: 0, done: true },
  };
}

/** Computes the expiry of a push, and until when it is sent. @throws PushExpiredError */
function computeEnds(
  request: PushRequest,
  startMs: number,
): Pick<PushDocument, 'expiresAt' | 'sendUntil'> {
  if ('sendUntil' in request) {
    const { sendUntil } = request;
    if (sendUntil.getTime() <= startMs) throw new PushExpiredError('the repeated push has expired');
    // A push with a time to live of 0 expires when it begins, and this one begins later than that one.
    return { expiresAt: new Date(Math.max(request.expiresAt.getTime(), startMs)), sendUntil };
  }
  const expiresAt = new Date(startMs + request.timeToLiveSeconds * 1_000);
  const isSendNow = request.timeToLiveSeconds === 0;
  return {
    expiresAt,
    sendUntil: isSendNow ? new Date(startMs + LIMITS.sendNowSeconds * 1_000) : expiresAt,
  };
}
