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
  const data = { mark: randomUUID() };
  const { status, json, text } = await stack.api<{ id: string; info: { devices: number } }>(
    'POST',
    '/push',
    { to, data, ...fields },
  );
  if (status !== 200) throw new Error(`push: ${status} ${text}`);
  return { id: json.id, payload: JSON.stringify(data), devices: json.info.devices };
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
export function isPartlyClosed({ waiting, ready, closed }: BatchStates): boolean {
  return closed > 0 && waiting + ready > 0;
}
