import { failpoint } from '@carillon/core/failpoint';
import { openBox } from '@carillon/core/sealed-box';
import type { SealingKeys } from '@carillon/core/sealing';
import { WEBHOOK_LIMITS } from '@carillon/core/webhooks';
import type { WebhookDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import type { AddressCircuits, AddressPermit, AddressState } from './address-circuits.ts';
import { DEADLINE_MS, type ReceiverResponse, type WebhookClient } from './client.ts';
import { buildEvents, type EventBody, type PendingReport } from './events.ts';
import type { ClaimedReport } from './outbox.ts';
import { createRequestLog, type RequestLog } from './request-log.ts';
import { buildTestEvent, rebuildEvents, type TestEvent } from './resend.ts';
import { computeDelayMs, computeRequestSize, isAccepted, isGone, MAX_FAILING_MS } from './retry.ts';
import { signWebhook } from './signature.ts';
import type { WebhookStore } from './webhook-store.ts';
import type { WebhookResponse } from './webhooks.ts';

/** Duration of a claim; a request is sent only if its response and the record of it fit into the rest. */
const LEASE_MS = 30_000;
/** Maximum duration of recording a response. */
const RECORD_MS = 6_000;
/** Time after which a job claims nothing more; the scheduler's next tick adds another job if something is left. */
const JOB_MS = 20_000;

/** Resources of the process that reporting to webhooks uses. */
export interface WebhookResources {
  store: Pick<Store, 'suspensions' | 'clock'> & WebhookStore;
  client: WebhookClient;
  circuits: AddressCircuits;
  keys: SealingKeys;
  random(): number;
  isStopping(): boolean;
  /** Called for each request, for the metrics. */
  onRequest(result: 'accepted' | 'failed' | 'gone', events: number): void;
  /** Called with the error when requests were not recorded, which delays and fails nothing. */
  onUnrecorded(error: unknown): void;
}

/** Result of one run, for the log. It has no address, which is the tenant's secret. */
export interface WebhookResult {
  webhook: string;
  app?: string;
  requests: number;
  events: number;
  end: 'reported' | 'more' | 'failed' | 'off' | 'waiting';
  /** The receiver's status or the error of the last failed request. */
  answer?: number | string;
}

/** The events of a request, and what its record says about them. */
interface Sent {
  events: readonly (EventBody | TestEvent)[];
  attempt?: number;
  resendOf?: string;
}

/** A webhook and what its requests need. */
interface Receiver {
  webhook: WebhookDocument;
  address: string;
  secrets: string[];
  result: WebhookResult;
  log: RequestLog;
}

/** Reports due events to a webhook: one request at a time, each recorded before the next. */
export async function reportToWebhook(
  resources: WebhookResources,
  id: string,
): Promise<WebhookResult> {
  const { store } = resources;
  const webhook = await store.webhooks.find(id);
  const result: WebhookResult = { webhook: id, requests: 0, events: 0, end: 'reported' };
  if (webhook === undefined || webhook.off !== undefined) return { ...result, end: 'off' };
  const isWaiting = () => (webhook.retryAt?.getTime() ?? 0) > store.clock.now();
  const { app, testAt, resend } = webhook;
  const isHeldBack = isWaiting() && testAt === undefined && resend === undefined;
  if (isHeldBack || store.suspensions.has(app)) return { ...result, end: 'waiting' };
  const receiver = openReceiver(resources, webhook, { ...result, app });
  try {
    await sendRequested(resources, receiver);
    // A requested one that was accepted has ended the wait.
    if (receiver.result.end === 'reported' && !isWaiting()) await sendDue(resources, receiver);
  } finally {
    await receiver.log.close();
  }
  return receiver.result;
}

/** Sends the test event and the request that an operator waits for. A failed one ends the run. */
async function sendRequested(resources: WebhookResources, receiver: Receiver): Promise<void> {
  const { testAt, resend } = receiver.webhook;
  if (testAt !== undefined && !(await sendTest(resources, receiver, testAt))) return;
  if (resend !== undefined) await sendAgain(resources, receiver, resend);
}

/** Sends the events that are due. */
async function sendDue(resources: WebhookResources, receiver: Receiver): Promise<void> {
  const { store } = resources;
  const { webhook, result } = receiver;
  const endsAt = performance.now() + JOB_MS;
  while (performance.now() < endsAt && !resources.isStopping()) {
    // Before the claim: webhooks of an address that is down cost a read each, no claims.
    const state = resources.circuits.check(receiver.address, webhook);
    if (state !== undefined) return waitForAddress(resources, receiver, state);
    const claimedAt = performance.now();
    const reports = await store.outbox.claim(webhook._id, LEASE_MS);
    if (reports.length === 0) return;
    if (!(await sendReports(resources, receiver, reports, claimedAt))) return;
  }
  result.end = 'more';
}

function openReceiver(
  { keys, store, onUnrecorded }: Pick<WebhookResources, 'keys' | 'store' | 'onUnrecorded'>,
  webhook: WebhookDocument,
  result: WebhookResult,
): Receiver {
  const now = store.clock.now();
  const live = webhook.secrets.filter(({ endsAt }) => (endsAt?.getTime() ?? now) >= now);
  return {
    webhook,
    address: openBox(keys, webhook._id, webhook.address),
    secrets: live.map(({ sealed }) => openBox(keys, webhook._id, sealed)),
    result,
    log: createRequestLog(store, webhook._id, store.clock.now, onUnrecorded),
  };
}

/** Ends the run of a webhook whose address gets no request now. */
async function waitForAddress(
  { store }: Pick<WebhookResources, 'store'>,
  { webhook, result }: Receiver,
  state: AddressState,
): Promise<void> {
  // While an address is busy, the next tick tries again.
  if (state.kind === 'open') await store.webhooks.postpone(webhook, state.waitMs);
  result.end = 'waiting';
}

/**
 * Sends the test event that was requested.
 *
 * @returns false if the request failed
 */
async function sendTest(
  resources: WebhookResources,
  receiver: Receiver,
  testAt: Date,
): Promise<boolean> {
  // One attempt: its result is shown, and pending events are reported by their own requests.
  await resources.store.webhooks.endTest(receiver.webhook._id, testAt);
  return sendOnce(resources, receiver, { events: [buildTestEvent(receiver.webhook, testAt)] });
}

/** Sends the events of an earlier request again, as far as they are stored: once, as a test event. */
async function sendAgain(
  resources: WebhookResources,
  receiver: Receiver,
  id: string,
): Promise<void> {
  const { store } = resources;
  const { webhook } = receiver;
  if (!(await store.webhooks.endResend(webhook._id, id))) return;
  const request = await store.webhookRequests.find(webhook._id, id);
  const events = request === undefined ? [] : await rebuildEvents(store, webhook, request);
  if (events.length > 0) await sendOnce(resources, receiver, { events, resendOf: id });
}

/**
 * Sends a request that an operator waits for.
 *
 * @returns false if it failed
 */
async function sendOnce(
  resources: WebhookResources,
  receiver: Receiver,
  sent: Sent,
): Promise<boolean> {
  // The response is recorded even shortly after another one.
  delete receiver.webhook.lastSuccessAt;
  // Also while the circuit is open: the operator tests whether the receiver works again.
  const permit = resources.circuits.acquire(receiver.address, receiver.webhook);
  const response =
    permit.kind === 'permit'
      ? await postWithPermit(resources, receiver, permit, sent)
      : await post(resources, receiver, sent);
  if (isAccepted(response) || isGone(response))
    return settleRequest(resources, receiver, response, sent.events.length);
  // The events that are due are sent when they would be without it.
  resources.onRequest('failed', 0);
  const recorded = toWebhookResponse(response);
  await resources.store.webhooks.recordFailedTest(receiver.webhook, recorded);
  return endFailed(receiver, recorded);
}

/**
 * Sends the events of claimed documents.
 *
 * @returns false if a request failed and the rest was released
 */
async function sendReports(
  resources: WebhookResources,
  receiver: Receiver,
  reports: readonly ClaimedReport[],
  claimedAt: number,
): Promise<boolean> {
  const wanted = new Set(receiver.webhook.events);
  const pending = reports.map((report) => buildEvents(report, wanted));
  while (pending.some(({ events }) => events.length > 0)) {
    const hasTime = performance.now() - claimedAt < LEASE_MS - DEADLINE_MS - RECORD_MS;
    if (!hasTime || resources.isStopping()) {
      await releaseReports(resources, pending, []);
      return true;
    }
    const permit = resources.circuits.acquire(receiver.address, receiver.webhook);
    if (permit.kind !== 'permit') {
      await releaseReports(resources, pending, []);
      await waitForAddress(resources, receiver, permit);
      return false;
    }
    const { failures = 0 } = receiver.webhook;
    const size = computeRequestSize(failures, WEBHOOK_LIMITS.eventsPerRequest);
    const request = takeEvents(pending, size);
    const response = await postWithPermit(resources, receiver, permit, request);
    if (isAccepted(response)) {
      request.accept();
      await recordReported(resources, pending, request.touched);
      failpoint('webhook-recorded', receiver.webhook._id);
    } else await releaseReports(resources, pending, request.touched, response);
    const { length } = request.events;
    if (!(await settleRequest(resources, receiver, response, length))) return false;
    await receiver.log.recordIfDue();
  }
  await recordReported(resources, pending, pending);
  return true;
}

/** The events of one request. */
interface EventRequest {
  events: EventBody[];
  /** The most tries of one of the events' documents, and this one. */
  attempt: number;
  touched: PendingReport[];
  /** Removes the events from their reports, and records them as reported. */
  accept(): void;
}

/** Chooses the first events that are left, at most `size`. */
function takeEvents(pending: readonly PendingReport[], size: number): EventRequest {
  const taken: { report: PendingReport; count: number }[] = [];
  let left = size;
  for (const report of pending) {
    const count = Math.min(left, report.events.length);
    if (count > 0) taken.push({ report, count });
    left -= count;
    if (left === 0) break;
  }
  return {
    events: taken.flatMap(({ report, count }) =>
      report.events.slice(0, count).map(({ body }) => body),
    ),
    attempt: 1 + Math.max(...taken.map(({ report }) => report.progress.report.entry.tries ?? 0)),
    touched: taken.map(({ report }) => report),
    accept() {
      for (const { report, count } of taken)
        for (const event of report.events.splice(0, count)) event.apply();
    },
  };
}

/** Records the reported events of some reports; those without further events are closed and leave the list. */
async function recordReported(
  { store }: Pick<WebhookResources, 'store'>,
  pending: PendingReport[],
  touched: readonly PendingReport[],
): Promise<void> {
  const progress = touched.map((report) => {
    report.progress.isComplete = report.events.length === 0;
    return report.progress;
  });
  if (progress.length > 0) await store.outbox.record(progress, LEASE_MS);
  const done = new Set(touched.filter(({ events }) => events.length === 0));
  pending.splice(0, pending.length, ...pending.filter((report) => !done.has(report)));
}

/** Releases all reports; those of a failed request wait for their own retry, so that others are tried first. */
async function releaseReports(
  { store, random }: Pick<WebhookResources, 'store' | 'random'>,
  pending: readonly PendingReport[],
  failed: readonly PendingReport[],
  response?: ReceiverResponse,
): Promise<void> {
  const retryAfterMs = response && 'status' in response ? response.retryAfterMs : undefined;
  await store.outbox.release(
    pending.map((one) => {
      const { report } = one.progress;
      const { tries = 0 } = report.entry;
      const delayMs = failed.includes(one) ? computeDelayMs(tries, retryAfterMs, random) : 0;
      return { report, delayMs };
    }),
  );
}

async function postWithPermit(
  resources: WebhookResources,
  receiver: Receiver,
  permit: AddressPermit,
  sent: Sent,
): Promise<ReceiverResponse> {
  let response: ReceiverResponse | undefined;
  try {
    response = await post(resources, receiver, sent);
    return response;
  } finally {
    permit.end(response);
  }
}

async function post(
  { client, store }: Pick<WebhookResources, 'client' | 'store'>,
  { webhook, address, secrets, result, log }: Receiver,
  { events, attempt, resendOf }: Sent,
): Promise<ReceiverResponse> {
  const body = JSON.stringify({ type: 'events', app: webhook.app, events });
  const headers = {
    'content-type': 'application/json',
    'user-agent': 'Carillon-Webhooks/1',
    ...signWebhook(secrets, body, store.clock.now()),
  };
  failpoint('webhook-send', webhook._id);
  const logged = log.start({ events, bytes: Buffer.byteLength(body), attempt, resendOf });
  const response = await client.post(address, headers, body, logged.onAnswer);
  logged.end(response);
  failpoint('webhook-sent', webhook._id);
  result.requests += 1;
  if (isAccepted(response)) result.events += events.length;
  return response;
}

/**
 * Records a response in the webhook.
 *
 * @returns false if the request failed
 */
async function settleRequest(
  { store, random, onRequest }: WebhookResources,
  receiver: Receiver,
  response: ReceiverResponse,
  events: number,
): Promise<boolean> {
  const { webhook } = receiver;
  if ('status' in response && isAccepted(response)) {
    onRequest('accepted', events);
    await store.webhooks.recordSuccess(webhook, response.status);
    delete webhook.failures;
    delete webhook.retryAt;
    webhook.lastSuccessAt = new Date(store.clock.now());
    return true;
  }
  onRequest(isGone(response) ? 'gone' : 'failed', 0);
  const recorded = toWebhookResponse(response);
  const retryAfterMs = 'status' in response ? response.retryAfterMs : undefined;
  const delayMs = computeDelayMs(webhook.failures ?? 0, retryAfterMs, random);
  const failingSince = await store.webhooks.recordFailure(webhook, recorded, delayMs);
  const isFailingLong = store.clock.now() - failingSince.getTime() > MAX_FAILING_MS;
  if (isGone(response)) await store.webhooks.turnOff(webhook, 'gone');
  else if (isFailingLong) await store.webhooks.turnOff(webhook, 'failing');
  return endFailed(receiver, recorded, isGone(response) || isFailingLong ? 'off' : 'failed');
}

/** Ends the run of a webhook whose request failed. */
function endFailed(
  { result }: Receiver,
  response: WebhookResponse,
  end: 'off' | 'failed' = 'failed',
): false {
  result.end = end;
  result.answer = 'status' in response ? response.status : response.error;
  return false;
}

function toWebhookResponse(response: ReceiverResponse): WebhookResponse {
  return 'status' in response ? { status: response.status } : { error: response.error };
}
