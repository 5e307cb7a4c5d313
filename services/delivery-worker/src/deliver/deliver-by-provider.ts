import { setTimeout as pause } from 'node:timers/promises';
import type { Channel, ProviderChannelName } from '@carillon/core/channels';
import { failpoint, failpointForEach } from '@carillon/core/failpoint';
import { type Failure, failureCode, OUTCOMES } from '@carillon/core/outcomes';
import { parseProviderTexts } from '@carillon/core/provider-fields';
import { computeRetryDelayMs } from '@carillon/core/retry-policy';
import { countAttributes, type Span } from '@carillon/core/tracing';
import { type Permit, REFUSED_ROUND_MS } from '@carillon/core/troubled-recipients';
import type { GoneDevice, ReachableDevice } from '@carillon/store/devices';
import type { Store } from '@carillon/store/store';
import type { createAcceptedRecorder } from './accepted-devices.ts';
import type { GetAppSettings } from './app-settings.ts';
import { type Progress, trackProgress } from './batch-progress.ts';
import type { Deferral, DeliverByChannel, Delivery } from './channel.ts';
import { sanitizeProviderError } from './error-texts.ts';
import { explainNoClient, findNextChannel, findOtherChannel } from './next-channel.ts';
import type { Address, Attempt, CompletedAttempt, ProviderPush, Send } from './provider.ts';
import type {
  CredentialClient,
  ProviderClientPool,
  ProviderClients,
  Upstream,
} from './provider-clients.ts';

/**
 * Maximum recipients of a batch that does not wait for the bulkhead. Larger ones wait, so that a fan-out doesn't delay
 * single pushes.
 */
const MAX_SMALL_BATCH_RECIPIENTS = 50;
/** Maximum wait for which a batch is not released. */
const MAX_INLINE_WAIT_MS = 250;
/** Maximum number of waits for which a batch is not released. */
const MAX_INLINE_ROUNDS = 3;
/** Maximum delay of a batch that goes on over another channel while some of its recipients wait for this one. */
const MOVED_BACK_MS = 5_000;
/** Delay of a batch whose app has too many in progress. */
const AT_CAPACITY_WAIT_MS = 1_000;

/** Resources of delivering through one provider. */
export interface ProviderResources {
  name: ProviderChannelName;
  clientPool: ProviderClientPool;
  /** Requests of one batch in flight at once. */
  window: number;
  store: Pick<Store, 'devices' | 'clock'>;
  getAppSettings: GetAppSettings;
  /** Called with the result of each attempt, for the metrics and the log. */
  report(push: string, result: AttemptResult): void;
  accepted: Pick<ReturnType<typeof createAcceptedRecorder>, 'record' | 'flush'>;
}

/** What an attempt means: `refused` is a refusal that concerns the credential, and not only its recipient. */
export interface AttemptResult {
  kind: 'sent' | 'gone' | 'rejected' | 'retry' | 'refused';
  /** The provider's error. */
  detail?: string;
  reason?: Failure;
}

interface Recipient extends Pick<ReachableDevice, 'lastActiveAt'> {
  position: number;
  token: string;
  address: Address;
  credentialClient: CredentialClient;
  upstream: Upstream;
}

/** One batch in progress. */
interface Run {
  resources: ProviderResources;
  delivery: Delivery;
  providerPush: ProviderPush;
  sends: Map<CredentialClient, Send>;
  goneDevices: GoneDevice[];
  /** Recipients that the provider has deferred, by position. */
  deferred: Map<number, Deferral>;
  /** Shortest wait among the remaining recipients. */
  waitMs: number;
  /** Remaining recipients that are reached over another channel by now, by that channel. */
  movers: Map<Channel, number>;
  /** The provider has deferred a recipient. */
  hasDeferred: boolean;
  progress: Progress;
  /** Lets another large batch begin; a second call does nothing. Undefined for a small one. */
  releaseBulkhead: (() => void) | undefined;
}

/**
 * Creates the delivery through a provider: addresses in one query, requests within the upstream's window, outcomes
 * saved as they arrive. Deferred recipients, and those of an open circuit, are released until the earliest useful time.
 * Each request first checks whether the push may still be sent.
 */
export function createDeliverByProvider(resources: ProviderResources): DeliverByChannel {
  return async (delivery) => {
    const clients = await resources.clientPool.acquire(delivery.push.app);
    try {
      if (clients.isAtCapacity()) return { done: false, retryAfterMs: AT_CAPACITY_WAIT_MS };
      return await (delivery.span === undefined
        ? deliverWithClients(resources, delivery, clients)
        : deliverWithSpan(delivery.span, resources, delivery, clients));
    } finally {
      clients.release();
    }
  };
}

/** Delivers with one span for the batch, which counts the provider's responses by kind. */
async function deliverWithSpan(
  batchSpan: Span,
  resources: ProviderResources,
  delivery: Delivery,
  clients: ProviderClients,
) {
  const span = batchSpan.startChild('send to provider', {
    'carillon.push.id': delivery.push._id,
    'carillon.channel': resources.name,
    'carillon.recipients': delivery.pending.size,
  });
  const counts: Partial<Record<AttemptResult['kind'], number>> = {};
  function report(push: string, result: AttemptResult): void {
    counts[result.kind] = (counts[result.kind] ?? 0) + 1;
    resources.report(push, result);
  }
  try {
    return await deliverWithClients({ ...resources, report }, delivery, clients);
  } finally {
    span.end(countAttributes('result', counts));
  }
}

async function deliverWithClients(
  resources: ProviderResources,
  delivery: Delivery,
  clients: ProviderClients,
) {
  const providerPush = await toProviderPush(resources, delivery);
  const releaseBulkhead =
    delivery.pending.size > MAX_SMALL_BATCH_RECIPIENTS
      ? await clients.bulkhead.acquire()
      : undefined;
  const deferred: Run['deferred'] = new Map(
    delivery.batch.work.later?.map(([position, retryAtMs, retries, providerError]) => [
      position,
      { retryAtMs, retries, ...(providerError !== undefined && { providerError }) },
    ]),
  );
  const { accepted } = resources;
  async function save(): Promise<void> {
    // First: a recipient whose outcome is saved is not tried again.
    await accepted.flush();
    const left = [...deferred].filter(([position]) => delivery.pending.has(position));
    await delivery.save(new Map(left));
  }
  const progress = trackProgress(save, delivery.pending);
  const run: Run = {
    resources,
    delivery,
    providerPush,
    sends: new Map(),
    goneDevices: [],
    deferred,
    waitMs: Number.POSITIVE_INFINITY,
    movers: new Map(),
    hasDeferred: false,
    progress,
    releaseBulkhead,
  };
  const pendingBefore = delivery.pending.size;
  const flagGone = () => resources.store.devices.flagGone(run.delivery.push.app, run.goneDevices);
  try {
    const maySend = await sendAll(run, clients);
    await Promise.all([flagGone(), accepted.flush()]);
    if (delivery.pending.size === 0) return { done: true } as const;
    await progress.stop();
    // A batch that is released unchanged, in an overload by the thousand, costs no save.
    if (run.hasDeferred || delivery.pending.size < pendingBefore) await save();
    const channel = findNextChannel(run.movers, delivery.pending.size);
    if (channel !== undefined) {
      // Those that wait for this channel would be moved back at once.
      const hasWaiting = Number.isFinite(run.waitMs);
      const retryAfterMs = hasWaiting ? Math.min(Math.ceil(run.waitMs), MOVED_BACK_MS) : 0;
      return { done: false, retryAfterMs, channel } as const;
    }
    const retryAfterMs = maySend && Number.isFinite(run.waitMs) ? Math.ceil(run.waitMs) : 0;
    return { done: false, retryAfterMs } as const;
  } catch (error) {
    await progress.stop();
    // The batch is repeated when its lease ends, and requests that have a response must not be. Without new outcomes
    // nothing is saved: a save shows that the batch makes progress.
    if (progress.hasUnsaved()) await save().catch(() => undefined);
    // Recipients whose outcome is saved are not tried again, so nothing else would flag their devices.
    await flagGone().catch(() => undefined);
    throw error;
  } finally {
    await progress.stop();
    releaseBulkhead?.();
  }
}

/**
 * Sends to pending recipients, and again to those that had to wait briefly.
 *
 * @returns false if nothing may be sent any more
 */
async function sendAll(run: Run, clients: ProviderClients): Promise<boolean> {
  for (let round = 0; ; round += 1) {
    if (!(await run.delivery.maySend())) return false;
    run.waitMs = Number.POSITIVE_INFINITY;
    run.movers.clear();
    const recipients = await findRecipients(run, clients);
    const maySend = await sendToKnownFirst(run, recipients);
    if (run.delivery.pending.size === 0 || round === MAX_INLINE_ROUNDS) return maySend;
    // The lease may have ended while requests waited for their turn: the next round renews it, or ends here.
    if (!maySend) continue;
    if (run.waitMs > MAX_INLINE_WAIT_MS) return true;
    await Promise.all([pause(run.waitMs), run.delivery.recordParallelReceipts?.()]);
  }
}

/**
 * Finds the addresses of recipients that are due. Those that are reached over another channel by now are left, and those that
 * have no address fail here.
 */
async function findRecipients(run: Run, clients: ProviderClients): Promise<Recipient[]> {
  const {
    delivery,
    resources: { name, store },
  } = run;
  const { pending, tokens, push, recordOutcome } = delivery;
  const mayChange = delivery.batch.work.fallback !== true && push.channel === undefined;
  // Without a credential nothing is worth waiting for.
  const mayWait = clients.hasCredentials();
  const positions = [...pending].filter((position) => isDue(run, position) || !mayWait);
  const pendingTokens = positions.map((position) => tokens[position] ?? '');
  const reachableDevices = await store.devices.findReachable(push.app, pendingTokens);
  const lacksClient = ({ provider }: ReachableDevice) =>
    provider?.channel === name && clients.findClient(provider) === undefined;
  // The owner may just have added the credential: pushes accepted since must not fail without it.
  if (reachableDevices.some(lacksClient)) await clients.refresh();
  const hasCredentials = clients.hasCredentials();
  const devices = new Map(reachableDevices.map((device) => [device._id, device]));
  return positions.flatMap((position, index) => {
    const token = pendingTokens[index] ?? '';
    const device = devices.get(token);
    if (device === undefined || device.uninstalled || device.unsubscribed) {
      recordOutcome(position, OUTCOMES.gone);
      return [];
    }
    const address = device.provider;
    const credentialClient = address?.channel === name ? clients.findClient(address) : undefined;
    if (address === undefined || credentialClient === undefined) {
      const channel = mayChange ? findOtherChannel(device, name, hasCredentials) : undefined;
      if (channel === undefined)
        recordOutcome(position, failureCode(explainNoClient(device, name, hasCredentials)));
      else run.movers.set(channel, (run.movers.get(channel) ?? 0) + 1);
      return [];
    }
    return [
      {
        position,
        token,
        address,
        credentialClient,
        upstream: credentialClient.upstreamOf(address),
        lastActiveAt: device.lastActiveAt,
      },
    ];
  });
}

/** Checks whether a recipient may be tried now; else its wait is taken into account. */
function isDue(run: Run, position: number): boolean {
  const waitMs = (run.deferred.get(position)?.retryAtMs ?? 0) - run.resources.store.clock.now();
  if (waitMs <= 0) return true;
  run.waitMs = Math.min(run.waitMs, waitMs);
  return false;
}

/**
 * Sends once to each recipient. Servers that devices have chosen may never respond: they delay neither the others of the batch
 * nor further large batches.
 */
async function sendToKnownFirst(run: Run, recipients: readonly Recipient[]): Promise<boolean> {
  const known = recipients.filter(({ upstream }) => upstream.isKnown);
  const maySend = await sendRound(run, known);
  if (!maySend || known.length === recipients.length) return maySend;
  run.releaseBulkhead?.();
  return sendRound(
    run,
    recipients.filter(({ upstream }) => !upstream.isKnown),
  );
}

/**
 * Sends once to each recipient, a window of them at a time. Own loops, not p-map: recipients that haven't begun are
 * left when sending stops, while those in flight are awaited.
 *
 * @returns false if nothing may be sent any more
 */
async function sendRound(run: Run, recipients: readonly Recipient[]): Promise<boolean> {
  let next = 0;
  let maySend = true;
  async function sendNext(): Promise<void> {
    try {
      while (maySend) {
        const recipient = recipients[next];
        if (recipient === undefined) return;
        next += 1;
        maySend = (await sendOne(run, recipient)) && maySend;
      }
    } catch (error) {
      maySend = false;
      throw error;
    }
  }
  const concurrency = Math.min(run.resources.window, recipients.length);
  // Requests in flight belong to this run, so all are awaited before an error is thrown.
  const results = await Promise.allSettled(Array.from({ length: concurrency }, sendNext));
  for (const result of results) if (result.status === 'rejected') throw result.reason;
  return maySend;
}

/**
 * Sends to one recipient.
 *
 * @returns false if nothing may be sent any more
 */
async function sendOne(run: Run, recipient: Recipient): Promise<boolean> {
  const { delivery, progress } = run;
  const { window, circuit } = recipient.upstream;
  const waitMs = circuit.waitMs(recipient.address.address);
  // What the circuit holds back does not wait for requests in flight.
  if (waitMs > 0) {
    run.waitMs = Math.min(run.waitMs, waitMs);
    return true;
  }
  const releaseWindow = await window.acquire();
  try {
    if (!(await delivery.maySend())) return false;
    // A newer push of the collapse key has replaced it meanwhile.
    if (!delivery.pending.has(recipient.position)) return true;
    const permit = circuit.acquire(recipient.address.address);
    if (typeof permit === 'number') {
      run.waitMs = Math.min(run.waitMs, permit);
      return true;
    }
    const attempt = await trySend(run, recipient, permit);
    if (attempt.kind === 'withheld') {
      circuit.release(permit);
      return false;
    }
    run.resources.report(delivery.push._id, applyAttempt(run, recipient, permit, attempt));
    // Before the window is released, so that no other request begins while too much is unsaved.
    await progress.saveIfDue();
    return true;
  } finally {
    releaseWindow();
  }
}

async function trySend(run: Run, recipient: Recipient, permit: Permit): Promise<Attempt> {
  const { delivery, providerPush, sends } = run;
  const { position, credentialClient, upstream, address } = recipient;
  delivery.inFlight.add(position);
  try {
    let send = sends.get(credentialClient);
    if (send === undefined) {
      send = credentialClient.client.prepare(providerPush, delivery.maySendNow);
      sends.set(credentialClient, send);
    }
    failpoint('send', recipient.token);
    const attempt = await send(address);
    failpointForEach('sent', () => [`${recipient.token} ${JSON.stringify(attempt)}`]);
    return attempt;
  } catch (error) {
    // An unexpected error: the batch is repeated when its lease ends, and a probe must not block the circuit
    // permanently.
    upstream.circuit.release(permit);
    throw error;
  } finally {
    delivery.inFlight.delete(position);
  }
}

/** Records an attempt for its recipient, and what it tells about the upstream and the credential. */
function applyAttempt(
  run: Run,
  recipient: Recipient,
  permit: Permit,
  attempt: CompletedAttempt,
): AttemptResult {
  if (attempt.kind === 'auth-error') return applyRefusal(run, recipient, permit, attempt);
  if (attempt.kind === 'retry') return applyRetry(run, recipient, permit, attempt);
  const { position, token, address, credentialClient, upstream } = recipient;
  if (attempt.kind === 'rejected' && attempt.isUnsent) upstream.circuit.release(permit);
  else {
    const isAccepted = attempt.kind === 'sent';
    upstream.circuit.onAnswered(permit, isAccepted);
    upstream.window.growByOne();
    if (isAccepted) credentialClient.onAccepted();
    if (isAccepted) run.resources.accepted.record(run.delivery.push.app, recipient);
  }
  if (attempt.kind === 'sent') recordOutcome(run, position, OUTCOMES.sent);
  else if (attempt.kind === 'rejected')
    recordOutcome(run, position, failureCode(attempt.reason), attempt.detail);
  else {
    recordOutcome(run, position, OUTCOMES.gone, attempt.detail);
    const { flag, lastSeenAt } = attempt;
    run.goneDevices.push({
      token,
      address: address.address,
      flag,
      ...(lastSeenAt && { lastSeenAt }),
    });
  }
  return attempt;
}

/** Fails a recipient for which alone the credential is refused round after round; each other one waits for a round. */
function applyRefusal(
  run: Run,
  { position, credentialClient, upstream }: Recipient,
  permit: Permit,
  { detail }: Extract<Attempt, { kind: 'auth-error' }>,
): AttemptResult {
  upstream.lastError = sanitizeProviderError(detail);
  const { concernsCredential, isFinal } = upstream.circuit.onRefusal(permit);
  if (concernsCredential) credentialClient.onRefused(detail);
  const kind = concernsCredential ? 'refused' : 'retry';
  if (!isFinal) {
    // Due at any time: the circuit makes it wait, and that of a corrected credential does not.
    defer(run, position, { detail, retryAfterMs: 0, waitMs: REFUSED_ROUND_MS });
    return { kind, detail };
  }
  const reason = 'rejected-by-provider';
  recordOutcome(run, position, failureCode(reason), detail);
  return { kind: 'rejected', reason, detail };
}

function applyRetry(
  run: Run,
  { position, upstream }: Recipient,
  permit: Permit,
  { scope, detail, afterMs }: Extract<Attempt, { kind: 'retry' }>,
): AttemptResult {
  if (scope === 'upstream') {
    upstream.lastError = sanitizeProviderError(detail);
    upstream.circuit.onFailure(permit, afterMs);
    // What is in flight with a failure may have been accepted and be sent again: after it there is little in flight.
    if (upstream.circuit.isOpen()) upstream.window.shrinkToOne();
  } else upstream.circuit.release(permit);
  const retries = run.deferred.get(position)?.retries ?? 0;
  const isFree = scope === 'connection' && retries === 0;
  const delayMs = isFree ? 0 : computeRetryDelayMs(retries, afterMs, Math.random);
  defer(run, position, { detail, retryAfterMs: delayMs, waitMs: delayMs });
  return { kind: 'retry', detail };
}

function recordOutcome(run: Run, position: number, outcome: number, detail?: string): void {
  run.delivery.recordOutcome(
    position,
    outcome,
    detail === undefined ? undefined : sanitizeProviderError(detail),
  );
}

/**
 * Defers a recipient.
 *
 * @param wait until it may be tried again at the earliest, and until it is useful to try
 */
function defer(
  run: Run,
  position: number,
  { detail, retryAfterMs, waitMs }: { detail: string; retryAfterMs: number; waitMs: number },
): void {
  run.deferred.set(position, {
    retryAtMs: run.resources.store.clock.now() + retryAfterMs,
    retries: (run.deferred.get(position)?.retries ?? 0) + 1,
    providerError: sanitizeProviderError(detail),
  });
  run.waitMs = Math.min(run.waitMs, waitMs);
  run.hasDeferred = true;
}

async function toProviderPush(
  { name, getAppSettings }: ProviderResources,
  { push }: Delivery,
): Promise<ProviderPush> {
  const { _id, data, options = {}, expiresAt } = push;
  const startsAt = push.dueAt ?? push.acceptedAt;
  const nowOnly = expiresAt.getTime() <= startsAt.getTime();
  const patches = parseProviderTexts(options);
  const providerPush = { id: _id, data, options, patches, expiresAt, nowOnly };
  if (name !== 'fcm') return providerPush;
  const { hasFcmNotification } = await getAppSettings(push.app);
  return { ...providerPush, hasFcmNotification };
}
