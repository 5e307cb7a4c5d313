import { expect } from '@jest/globals';
import type { PushDocument } from '../../../packages/store/src/documents.ts';
import type { TestMongo } from '../mongo.ts';
import type { MqttDevice } from '../mqtt-device.ts';
import { createLagRecord } from '../observer-lag.ts';
import type { Stack } from '../stack.ts';
import { until } from '../until.ts';
import {
  MAX_DUPLICATES_PER_DEVICE,
  MAX_DUPLICATES_PER_RECIPIENT,
  SETTLED_MS,
  untilAnotherArrived,
} from './expect-complete.ts';
import { type Attempt, attemptPush } from './pushes.ts';

/** An election or a restart takes some time, on a busy machine more. */
const RESPONSE_MS = 90_000;
/** Sends get a 200 again within this time of a new primary. */
const ACCEPTED_AGAIN_MS = 10_000;

/** An attempt and the devices that it is for. */
export type SteadyPush = Attempt & { to: readonly MqttDevice[] };

/** Pushes that are being sent. */
export interface SteadyLoad {
  /** Waits until so many more pushes are accepted. */
  untilAccepted(more: number): Promise<void>;
  /** Waits until so many more pushes get another response, or none. */
  untilFailed(more: number): Promise<void>;
}

/**
 * Sends pushes at a steady rate during a task, whether or not the previous ones have a response: each to some of the devices, in
 * turn. Returns all of them once the last has its response.
 *
 * @param load.perPush devices of each push
 */
export async function sendDuring(
  stack: Pick<Stack, 'api'>,
  devices: readonly MqttDevice[],
  { perSecond, perPush }: { perSecond: number; perPush: number },
  task: (load: SteadyLoad) => Promise<void>,
): Promise<readonly SteadyPush[]> {
  const completed: SteadyPush[] = [];
  const inFlight: Promise<void>[] = [];

  async function send(n: number): Promise<void> {
    const indexes = Array.from({ length: perPush }, (_, at) => (n * perPush + at) % devices.length);
    const to = indexes.flatMap((index) => devices[index] ?? []);
    const tokens = to.map(({ token }) => token);
    completed.push({ ...(await attemptPush(stack, tokens)), to });
  }
  const countFinished = (isAccepted: boolean) =>
    completed.filter((one) => one.isAccepted === isAccepted).length;
  async function untilMore(isAccepted: boolean, more: number): Promise<void> {
    const before = countFinished(isAccepted);
    const what = `${more} more pushes ${isAccepted ? '' : 'not '}accepted`;
    await until(() => countFinished(isAccepted) >= before + more, { timeoutMs: RESPONSE_MS, what });
  }

  const beganAt = performance.now();
  const timer = setInterval(() => {
    // A busy machine's timer is late: what is due by the clock is sent.
    const due = Math.ceil(((performance.now() - beganAt) * perSecond) / 1_000);
    while (inFlight.length < due) {
      const sending = send(inFlight.length);
      // It is thrown at the end.
      sending.catch(() => undefined);
      inFlight.push(sending);
    }
  }, 1_000 / perSecond);
  try {
    await task({
      untilAccepted: (more) => untilMore(true, more),
      untilFailed: (more) => untilMore(false, more),
    });
  } finally {
    clearInterval(timer);
    await Promise.allSettled(inFlight);
  }
  await Promise.all(inFlight);
  return completed;
}

/** Waits until a push is accepted, prints how long after the new primary that was, and expects it to be within 10 s. */
export async function expectAcceptedAgain(
  label: string,
  load: SteadyLoad,
  replacedAt: number,
): Promise<void> {
  const lags = createLagRecord();
  await lags.during(load.untilAccepted(1));
  const tookMs = Math.round(performance.now() - replacedAt);
  process.stdout.write(`${label}: accepted again ${tookMs} ms after the new primary\n`);
  expect(tookMs).toBeLessThanOrEqual(ACCEPTED_AGAIN_MS + 3 * lags.maxMs());
}

/** Load of a rolling restart of servers. */
export const ROLLING_LOAD = {
  perSecond: Number(process.env.CARILLON_ROLLING_RATE ?? 200),
  perPush: 1,
};
/** Of the rate: a machine that can't send so many has shown less. */
const SENT_AT_LEAST = 0.9;

/** Prints how many pushes a second were sent, from the first to the last, and expects about as many as requested. */
export function expectRate(
  sent: readonly SteadyPush[],
  { perSecond }: { perSecond: number },
): void {
  const times = sent.map(({ startedAt }) => startedAt);
  const rate = ((sent.length - 1) * 1_000) / (Math.max(...times) - Math.min(...times));
  process.stdout.write(`${rate.toFixed(1)} of ${perSecond} pushes a second sent\n`);
  expect(rate).toBeGreaterThanOrEqual(SENT_AT_LEAST * perSecond);
}

/** Where the pushes of a test have gone. */
export interface Observers {
  stack: Pick<Stack, 'api'>;
  mongo: Pick<TestMongo, 'db'>;
  pool: { devices: readonly MqttDevice[] };
}

/**
 * Expects that every accepted push arrives at all of its devices, and each other one at all of them or at none: as MongoDB
 * has it or not (guarantees G1 to G3). Few arrive twice (guarantee G4).
 */
export async function expectWholeOrAbsent(
  label: string,
  { stack, mongo, pool }: Observers,
  sent: readonly SteadyPush[],
): Promise<void> {
  let wrong: string[] = [];
  const areAllWhole = async () => {
    wrong = findWrong(sent, await listStored(mongo, sent), countAllArrivals(pool.devices));
    return wrong.length === 0;
  };
  await until(areAllWhole, { timeoutMs: SETTLED_MS, everyMs: 300 }).catch((cause: unknown) => {
    throw new Error(`${label}: ${wrong.length} pushes, ${wrong.slice(0, 5).join('; ')}`, { cause });
  });
  // Other pushes on their way arrive before a push that is sent now.
  await untilAnotherArrived(stack, pool.devices);
  const arrivals = countAllArrivals(pool.devices);
  expect(findWrong(sent, await listStored(mongo, sent), arrivals)).toEqual([]);
  expectFewRepeats(label, pool.devices, sent);
}

type ArrivalCounts = ReadonlyMap<MqttDevice, ReadonlyMap<string, number>>;

/** Returns how often each payload has arrived at each device. */
function countAllArrivals(devices: readonly MqttDevice[]): ArrivalCounts {
  return new Map(
    devices.map((device) => {
      const counts = new Map<string, number>();
      for (const { payload } of device.arrivals)
        counts.set(payload, (counts.get(payload) ?? 0) + 1);
      return [device, counts];
    }),
  );
}

/** Returns the payloads of the pushes that MongoDB has accepted. */
export async function listStored(
  { db }: Pick<TestMongo, 'db'>,
  sent: readonly SteadyPush[],
): Promise<ReadonlySet<string>> {
  const data = { $in: sent.map(({ payload }) => payload) };
  const accepted = { data, state: { $in: ['open' as const, 'finished' as const] } };
  const found = await db
    .collection<PushDocument>('pushes')
    .find(accepted, { projection: { data: 1 } })
    .toArray();
  return new Set(found.map((push) => push.data));
}

/** Describes the pushes that are missing where they should be, or there where they should not. */
function findWrong(
  sent: readonly SteadyPush[],
  stored: ReadonlySet<string>,
  arrivals: ArrivalCounts,
): string[] {
  return sent.flatMap(({ payload, to, isAccepted }) => {
    const isStored = stored.has(payload);
    if (isAccepted && !isStored) return [`${payload} was accepted and is not stored`];
    const reached = to.filter((device) => (arrivals.get(device)?.get(payload) ?? 0) > 0).length;
    const expected = isStored ? to.length : 0;
    if (reached === expected) return [];
    return [`${payload} is ${isStored ? '' : 'not '}stored, at ${reached} of ${to.length} devices`];
  });
}

/** Counts the arrivals beyond the first; those on a new connection of the device follow from its break. */
function expectFewRepeats(
  label: string,
  devices: readonly MqttDevice[],
  sent: readonly SteadyPush[],
): void {
  const payloads = new Set(sent.map(({ payload }) => payload));
  const perDevice = devices.map(({ arrivals }) => {
    const own = arrivals.filter(({ payload }) => payloads.has(payload));
    const distinct = new Set(own.map(({ payload }) => payload));
    const perConnection = new Set(own.map(({ payload, connection }) => `${connection} ${payload}`));
    const breaks = Math.max(1, ...own.map(({ connection }) => connection)) - 1;
    return {
      repeats: own.length - perConnection.size,
      isTooMany: own.length - distinct.size > MAX_DUPLICATES_PER_DEVICE * Math.max(1, breaks),
    };
  });
  const repeats = perDevice.reduce((sum, device) => sum + device.repeats, 0);
  const recipients = sent.reduce((sum, { to }) => sum + to.length, 0);
  const accepted = sent.filter(({ isAccepted }) => isAccepted).length;
  process.stdout.write(
    `${label}: ${accepted} of ${sent.length} accepted, ${repeats} of ${recipients} recipients got it twice\n`,
  );
  expect(repeats).toBeLessThanOrEqual(Math.ceil(recipients * MAX_DUPLICATES_PER_RECIPIENT));
  expect(perDevice.filter(({ isTooMany }) => isTooMany)).toEqual([]);
}
