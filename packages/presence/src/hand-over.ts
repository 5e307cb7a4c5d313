import { newClaimId } from '@carillon/core/ids';
import { type Delivery, writeEntry } from './hand-over-entries.ts';
import { handOverKey, type Place, replyKey, TTL } from './keys.ts';
import { connectRedis, type Redis } from './redis.ts';
import { createRedisTime } from './redis-time.ts';
import type { Answer } from './replies.ts';
import { followReplies, readAllReplies } from './reply-stream.ts';

export type { Delivery } from './hand-over-entries.ts';
export type { Answer } from './replies.ts';

/** Answers come this long after the deadline at the latest: a second for the device, half of one for the way. */
const ANSWER_GRACE_MS = 1_500;
const UPKEEP_MS = 3_000;

export interface HandOverRecipient {
  token: string;
  /** The recipient's position in the work. */
  position: number;
  place: Place;
}

/** The worker's side of the hand-over. */
export interface HandOver {
  /** Where the answers come; kept with the claim, so that a successor can read them. */
  replyStream: string;
  /**
   * Hands a delivery to the gateways of these recipients and waits for their answers.
   *
   * @param deadlineMs from now; gateways write nothing to a socket after it
   * @returns an answer for every position, at the latest 1.5 s after the deadline
   * @throws when Redis fails; some gateways may have got it, then their answers are in the reply stream
   */
  handOver(
    delivery: Delivery,
    recipients: readonly HandOverRecipient[],
    deadlineMs: number,
  ): Promise<Map<number, Answer>>;
  /** Tells gateways to read these devices' inboxes: a row was written. Throws when Redis fails. */
  drain(recipients: readonly Pick<HandOverRecipient, 'token' | 'place'>[]): Promise<void>;
  /** The answers of a claim whose worker died, by position. Throws when Redis fails. */
  readReplies(replyStream: string, claim: string): Promise<Map<number, Answer>>;
  close(): Promise<void>;
}

interface Waiting {
  claim: string;
  /** Positions without an answer. */
  open: Set<number>;
  answers: Map<number, Answer>;
  done: () => void;
}

export async function createHandOver({ url }: { url: string }): Promise<HandOver> {
  const [redis, reader] = await Promise.all([connectRedis(url), connectRedis(url, 'blocking')]);
  const replyStream = replyKey(newClaimId());
  const time = createRedisTime(redis);
  const waiting = new Set<Waiting>();

  const upkeep = async (): Promise<void> => {
    await Promise.allSettled([time.sample(), redis.expire(replyStream, TTL.replies)]);
  };
  await upkeep();
  const timer = setInterval(() => void upkeep(), UPKEEP_MS);
  const stopFollowing = followReplies(reader, replyStream, ({ claim, answer, positions }) => {
    for (const one of waiting) {
      if (one.claim === claim) for (const position of positions) note(one, position, answer);
    }
  });

  return {
    replyStream,
    async handOver(delivery, recipients, deadlineMs) {
      if (Number.isNaN(time.now())) await time.sample();
      const deadline = time.now() + deadlineMs;
      const until = performance.now() + deadlineMs + ANSWER_GRACE_MS;
      const { result, one } = expect(delivery.claim, recipients, waiting, until);
      try {
        await sendAll(redis, one, recipients, (some) => ({
          kind: 'deliver',
          delivery: {
            ...delivery,
            reply: replyStream,
            deadline,
            tokens: some.map(({ token }) => token),
            positions: some.map(({ position }) => position),
          },
        }));
        return await result;
      } finally {
        one.done();
      }
    },
    async drain(recipients) {
      const pipeline = redis.pipeline();
      for (const [gateway, some] of byGateway(recipients)) {
        const tokens = some.map(({ token }) => token);
        pipeline.xadd(
          handOverKey(gateway),
          'NOMKSTREAM',
          '*',
          ...writeEntry({ kind: 'drain', tokens }),
        );
      }
      for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error;
    },
    readReplies: (stream, claim) => readAllReplies(redis, stream, claim),
    async close() {
      clearInterval(timer);
      stopFollowing();
      for (const one of waiting) one.done();
      reader.disconnect();
      redis.disconnect();
    },
  };
}

/** Registers the wait before anything is sent: the first answer may come before XADD returns. */
function expect(
  claim: string,
  recipients: readonly HandOverRecipient[],
  waiting: Set<Waiting>,
  until: number,
): { one: Waiting; result: Promise<Map<number, Answer>> } {
  const { promise, resolve } = Promise.withResolvers<Map<number, Answer>>();
  const one: Waiting = {
    claim,
    open: new Set(recipients.map(({ position }) => position)),
    answers: new Map(),
    done() {
      clearTimeout(timer);
      waiting.delete(one);
      for (const position of one.open) one.answers.set(position, 'unanswered');
      resolve(one.answers);
    },
  };
  const timer = setTimeout(one.done, Math.max(0, until - performance.now()));
  waiting.add(one);
  return { one, result: promise };
}

function note(one: Waiting, position: number, answer: Answer): void {
  if (!one.open.delete(position)) return;
  one.answers.set(position, answer);
  if (one.open.size === 0) one.done();
}

/** One XADD for each gateway, all in one round trip. */
async function sendAll(
  redis: Redis,
  one: Waiting,
  recipients: readonly HandOverRecipient[],
  entryFor: (some: readonly HandOverRecipient[]) => Parameters<typeof writeEntry>[0],
): Promise<void> {
  const sent: (readonly HandOverRecipient[])[] = [];
  const pipeline = redis.pipeline();
  for (const [gateway, some] of byGateway(recipients)) {
    if (some[0]?.place.credit === 0) {
      for (const { position } of some) note(one, position, 'not-written');
      continue;
    }
    sent.push(some);
    pipeline.xadd(handOverKey(gateway), 'NOMKSTREAM', '*', ...writeEntry(entryFor(some)));
  }
  if (recipients.length === 0) one.done();
  if (sent.length === 0) return;
  for (const [index, [error, id]] of ((await pipeline.exec()) ?? []).entries()) {
    if (error) throw error;
    // No stream: the gateway ended, or took a new identity.
    if (id === null) for (const { position } of sent[index] ?? []) note(one, position, 'not-here');
  }
}

function byGateway<R extends { place: Place }>(recipients: readonly R[]): Map<string, R[]> {
  const groups = new Map<string, R[]>();
  for (const recipient of recipients) {
    const group = groups.get(recipient.place.gateway);
    if (group === undefined) groups.set(recipient.place.gateway, [recipient]);
    else group.push(recipient);
  }
  return groups;
}
