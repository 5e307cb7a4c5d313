import { setTimeout as sleep } from 'node:timers/promises';
import type { TestTenant } from '../support/api/tenants.ts';
import { callApi } from '../support/stack/call-api.ts';
import { acceptedId, type SentPush, type Try } from './history.ts';
import type { PlannedPush, TenantName } from './plan.ts';

const TRY_FOR_MS = 60_000;
const TRY_TIMEOUT_MS = 10_000;
const RETRY_AFTER_MS = 500;

/** A line of the log of the clients. */
export type LogLine = (line: Readonly<Record<string, unknown>>) => void;

/** A tenant, and the devices that its pushes are for. */
export interface Sender {
  dev: TestTenant['dev'];
  tokens: readonly string[];
  /** Name and subscribers of each topic. */
  topics: readonly { name: string; tokens: readonly string[] }[];
}

/**
 * Sends pushes as planned: most are tried with one Idempotency-Key until the response says yes or no, some only once.
 *
 * @param plan.first number of the first of these pushes, which no other push may have
 */
export async function sendPushes(
  senders: Record<TenantName, Sender>,
  plan: { seed: number; pushes: readonly PlannedPush[]; first?: number },
  log: LogLine,
): Promise<SentPush[]> {
  const startedAt = performance.now();
  const sent: SentPush[] = [];
  const running: Promise<void>[] = [];
  for (const [index, planned] of plan.pushes.entries()) {
    await sleep(Math.max(0, startedAt + planned.atMs - performance.now()));
    const sender = senders[planned.tenant];
    const mark = `soak-${planned.tenant}-${(plan.first ?? 0) + index}-${plan.seed}`;
    const push = createPush(mark, planned, sender);
    sent.push(push.record);
    running.push(sendOne(sender.dev, push, planned, log));
  }
  await Promise.all(running);
  return sent;
}

function createPush(mark: string, planned: PlannedPush, { tokens, topics }: Sender) {
  const topic = 'topic' in planned.audience ? topics[planned.audience.topic] : undefined;
  const named = 'devices' in planned.audience ? planned.audience.devices : [];
  const audience = topic?.tokens ?? named.map((index) => tokens[index] ?? '');
  const dueAtSeconds = planned.delaySeconds && Math.ceil(Date.now() / 1_000) + planned.delaySeconds;
  const collapse = planned.collapse === undefined ? undefined : `key-${planned.collapse}`;
  const record: SentPush = {
    ...{ tenant: planned.tenant, mark, audience, ttlSeconds: planned.ttlSeconds, tries: [] },
    ...(dueAtSeconds !== undefined && { dueAtMs: dueAtSeconds * 1_000 }),
    ...(collapse !== undefined && { collapse }),
    ...(planned.isInvalid && { isInvalid: true }),
  };
  const body = JSON.stringify({
    to: topic === undefined ? audience : `/topics/${topic.name}`,
    data: { mark },
    time_to_live: planned.ttlSeconds,
    ...(dueAtSeconds !== undefined && { schedule: dueAtSeconds }),
    ...(collapse !== undefined && { collapse_key: collapse }),
    ...(planned.isInvalid && { time_to_live: -1 }),
  });
  return { record, body };
}

async function sendOne(
  dev: TestTenant['dev'],
  { record, body }: { record: SentPush; body: string },
  { deleteAfterMs, isTriedOnce = false }: PlannedPush,
  log: LogLine,
): Promise<void> {
  const { mark } = record;
  const giveUpAt = performance.now() + TRY_FOR_MS;
  while (performance.now() < giveUpAt) {
    log({ op: 'push', type: 'invoke', at: Date.now(), mark });
    const one = await tryPush(dev, mark, body);
    record.tries.push(one);
    log({ op: 'push', type: one.end, at: one.endedAtMs, mark, status: one.status, id: one.id });
    if (one.end !== 'unknown' || isTriedOnce) break;
    await sleep(RETRY_AFTER_MS);
  }
  const id = acceptedId(record);
  if (deleteAfterMs === undefined || id === undefined) return;
  await sleep(deleteAfterMs);
  record.deletion = { startedAtMs: Date.now() };
  while (performance.now() < giveUpAt) {
    log({ op: 'delete', type: 'invoke', at: Date.now(), mark });
    const status = await callApi(dev, 'DELETE', `/pushes/${id}`).then(
      (response) => response.status,
      () => undefined,
    );
    const type = status === 200 ? 'ok' : status === undefined || status >= 500 ? 'unknown' : 'fail';
    log({ op: 'delete', type, at: Date.now(), mark, status });
    if (type === 'ok') record.deletion.deletedAtMs = Date.now();
    if (type !== 'unknown') return;
    await sleep(RETRY_AFTER_MS);
  }
}

async function tryPush(dev: TestTenant['dev'], key: string, body: string): Promise<Try> {
  const startedAtMs = Date.now();
  try {
    const response = await fetch(new URL(`/push?api_key=${dev.apiKey}`, dev.api), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body,
      signal: AbortSignal.timeout(TRY_TIMEOUT_MS),
    });
    const { id } = (await response.json()) as { id?: string };
    const { status } = response;
    const end = status === 200 ? 'ok' : status >= 500 ? 'unknown' : 'fail';
    return { end, startedAtMs, endedAtMs: Date.now(), status, ...(id !== undefined && { id }) };
  } catch {
    return { end: 'unknown', startedAtMs, endedAtMs: Date.now() };
  }
}
