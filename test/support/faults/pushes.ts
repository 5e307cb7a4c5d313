import { randomUUID } from 'node:crypto';
import { expect } from '@jest/globals';
import { createDeliveryStatus } from '../../../packages/reports/src/delivery-status.ts';
import type { TestMongo } from '../mongo.ts';
import type { Stack } from '../stack.ts';
import { type PollOptions, until } from '../until.ts';

/** A push that got a 200. */
export interface SentPush {
  id: string;
  /** The payload's text, which no other push has. */
  payload: string;
  /** How many recipients were accepted. */
  devices: number;
}

type Counts = Record<string, number>;

/** Result of a request to send during a fault; `startedAt` is by the monotonic clock (`performance.now()`). */
export type Attempt = { payload: string; startedAt: number } & (
  | { isAccepted: true; push: SentPush; tookMs: number }
  /** A 5xx or a cut connection: the push is there or it is not (guarantee G2). */
  | { isAccepted: false; status?: number; error?: string; tookMs: number }
);

/**
 * Tries to send. @throws on a response that means neither accepted nor unknown: an outage must not look like the
 * sender's mistake.
 */
export async function attemptPush(
  stack: Pick<Stack, 'api'>,
  to: string | readonly string[],
  fields: Record<string, unknown> = {},
): Promise<Attempt> {
  const data = { mark: randomUUID() };
  const startedAt = performance.now();
  const sent = { payload: JSON.stringify(data), startedAt };
  const tookMs = () => performance.now() - startedAt;
  try {
    const response = await stack.api<{ id: string; info: { devices: number } }>('POST', '/push', {
      to,
      data,
      ...fields,
    });
    const { status, text } = response;
    if (status >= 500) return { ...sent, isAccepted: false, status, error: text, tookMs: tookMs() };
    if (status !== 200) throw new UnexpectedResponse(`push: ${status} ${text}`);
    const { id, info } = response.json;
    const push = { id, payload: sent.payload, devices: info.devices };
    return { ...sent, isAccepted: true, push, tookMs: tookMs() };
  } catch (error) {
    if (error instanceof UnexpectedResponse) throw error;
    return { ...sent, isAccepted: false, error: describeCause(error), tookMs: tookMs() };
  }
}

/** `fetch` keeps what happened to the connection in the cause. Its errors are of another realm than a test's `Error`. */
function describeCause(error: unknown): string {
  const cause = typeof error === 'object' && error !== null && Reflect.get(error, 'cause');
  return String(cause || error);
}

class UnexpectedResponse extends Error {}

/**
 * Sends a push with a payload of its own.
 *
 * @param fields more fields of the request
 * @throws when it is not accepted
 */
export async function sendPush(
  stack: Pick<Stack, 'api'>,
  to: string | readonly string[],
  fields: Record<string, unknown> = {},
): Promise<SentPush> {
  const attempt = await attemptPush(stack, to, fields);
  if (attempt.isAccepted) return attempt.push;
  throw new Error(`push: ${attempt.status} ${attempt.error ?? ''}`);
}

/** A push's state and its recipients by outcome, as `carillon push outcomes` shows them. */
export async function pushStatusOf(mongo: TestMongo, { id }: Pick<SentPush, 'id'>) {
  const pushStatus = await createDeliveryStatus(mongo.db).statusOfPush(id);
  if (pushStatus === undefined) throw new Error(`there is no push ${id}`);
  return pushStatus;
}

/** Waits until the recipients of a push have exactly these outcomes. @throws naming the outcomes that they have instead. */
export async function untilOutcomes(
  mongo: TestMongo,
  push: Pick<SentPush, 'id'>,
  expected: Counts,
  pollOptions: PollOptions = {},
): Promise<void> {
  let actual = '';
  const hasExpectedOutcomes = async () => {
    actual = formatCounts((await pushStatusOf(mongo, push)).outcomes);
    return actual === formatCounts(expected);
  };
  await until(hasExpectedOutcomes, { timeoutMs: 40_000, everyMs: 100, ...pollOptions }).catch(
    (cause: unknown) => {
      throw new Error(`push ${push.id}: wanted ${formatCounts(expected)}, is ${actual}`, { cause });
    },
  );
}

function formatCounts(counts: Counts): string {
  const nonZero = Object.entries(counts).filter(([, n]) => n > 0);
  return nonZero
    .sort()
    .map(([name, n]) => `${name} ${n}`)
    .join(', ');
}

/** The units of work of a push by their state. */
export interface BatchStates {
  waiting: number;
  ready: number;
  closed: number;
}

/** Reads the work of a push, be it in batches or in the push itself. */
export async function countBatchStates(
  mongo: TestMongo,
  push: { id: string },
): Promise<BatchStates> {
  const states: BatchStates = { waiting: 0, ready: 0, closed: 0 };
  const lists = await Promise.all([
    mongo.db.collection('batches').find({ push: push.id }, STATE).toArray(),
    mongo.db.collection<{ _id: string }>('pushes').find({ _id: push.id }, STATE).toArray(),
  ]);
  for (const { work } of lists.flat() as { work?: { state: keyof BatchStates } }[]) {
    if (work !== undefined) states[work.state] += 1;
  }
  return states;
}

const STATE = { projection: { 'work.state': 1 } };

/** Waits until some of a push's work is closed and some is not. */
export function untilPartlyClosed(mongo: TestMongo, push: { id: string }): Promise<BatchStates> {
  const midway = async () => {
    const states = await countBatchStates(mongo, push);
    return isPartlyClosed(states) && states;
  };
  return until(midway, { everyMs: 2, what: `push ${push.id} half processed` });
}

/** Expects some of a push's work to be closed and some to be open: it is in progress. */
export async function expectPartlyClosed(mongo: TestMongo, push: { id: string }): Promise<void> {
  expect(isPartlyClosed(await countBatchStates(mongo, push))).toBe(true);
}

/** Checks whether both open and closed batches exist. */
function isPartlyClosed({ waiting, ready, closed }: BatchStates): boolean {
  return closed > 0 && waiting + ready > 0;
}
