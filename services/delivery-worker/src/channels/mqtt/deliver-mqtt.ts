import { failed, OUTCOMES } from '@carillon/core/outcomes';
import type { Answer, HandOver, HandOverRecipient } from '@carillon/presence/hand-over';
import type { WhoIsOnline } from '@carillon/presence/who-is-online';
import type { OwedPush } from '@carillon/store/inbox';
import type { DeliverByChannel, Delivery } from '../../deliver/channel.ts';

/**
 * How long a gateway has until a delivery is written to the device's socket. With the age that the push's state
 * may have before, nothing is written a second after a deletion (guarantee G8).
 */
const WRITE_DEADLINE_MS = 450;
/** Waits before what was not written is handed over again. */
const BACK_OFF_MS = [100, 300, 1_000, 2_000];
const REDIS_RETRY_MS = 1_000;

/** What delivering over MQTT needs. */
export interface MqttDeps {
  whoIsOnline: WhoIsOnline;
  handOver: Pick<HandOver, 'handOver' | 'drain'>;
  /** Writes inbox rows; returns the tokens for which a newer push of the collapse key is there. */
  owe(rows: OwedPush[]): Promise<Set<string>>;
  /** Those of the tokens whose inbox takes nothing more. */
  fullInboxes(tokens: readonly string[]): Promise<Set<string>>;
  pause(ms: number): Promise<void>;
}

/** What to do about a recipient after a gateway's answer. */
type Next = 'delivered' | 'superseded' | 'row' | 'row of a sent one' | 'again';

const AFTER: Record<Answer, Next> = {
  acknowledged: 'delivered',
  superseded: 'superseded',
  // The device hasn't emptied its inbox: the push takes its place there (guarantee G5).
  draining: 'row',
  refused: 'row',
  // Written, but no proof: the row makes sure, and the device may see the push twice (guarantee G4).
  silent: 'row of a sent one',
  'not-here': 'again',
  'not-written': 'again',
  unanswered: 'again',
};

/**
 * Delivers to devices on the MQTT link: connected ones by hand-over to their gateways, all others by a row in
 * their inbox. A device that is online and acknowledges costs no write of its own.
 */
export function createDeliverMqtt(deps: MqttDeps): DeliverByChannel {
  return async (delivery) => {
    try {
      for (let round = 0; delivery.open.size > 0; round += 1) {
        if (!(await delivery.maySend())) return { done: false, retryAfterMs: 0 };
        await deliverRound(deps, delivery, round >= BACK_OFF_MS.length);
        if (delivery.open.size > 0) await deps.pause(BACK_OFF_MS[round] ?? 0);
      }
      return { done: true };
    } catch (error) {
      if (!isRedisFailure(error)) throw error;
      // Nobody knows who is connected: no rows for a whole audience, but another try soon.
      return { done: false, retryAfterMs: REDIS_RETRY_MS };
    }
  };
}

async function deliverRound(deps: MqttDeps, delivery: Delivery, isLast: boolean): Promise<void> {
  const positions = [...delivery.open];
  const places = await lookUp(deps, delivery, positions);
  const online: HandOverRecipient[] = [];
  const offline: number[] = [];
  for (const [index, position] of positions.entries()) {
    const place = places[index];
    if (place === undefined) offline.push(position);
    else online.push({ token: delivery.tokens[position] ?? '', position, place });
  }
  // Each to its end: receipts that came must count although the other failed, or devices get the push twice.
  const ends = await Promise.allSettled([
    handOverAndFollow(deps, delivery, online, isLast),
    owe(deps, delivery, offline, false),
  ]);
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

async function handOverAndFollow(
  deps: MqttDeps,
  delivery: Delivery,
  online: HandOverRecipient[],
  isLast: boolean,
): Promise<void> {
  if (online.length === 0) return;
  await follow(deps, delivery, await handOver(deps, delivery, online), isLast);
}

/** Acts on the gateways' answers; what is to be tried again stays open, unless this was the last round. */
async function follow(
  deps: MqttDeps,
  delivery: Delivery,
  answers: ReadonlyMap<number, Answer>,
  isLast: boolean,
): Promise<void> {
  const rows: number[] = [];
  const rowsOfSent: number[] = [];
  for (const [position, answer] of answers) {
    const next = nextAfter(delivery, answer);
    if (next === 'delivered') delivery.end(position, OUTCOMES.delivered);
    else if (next === 'superseded') delivery.end(position, OUTCOMES.superseded);
    else if (next === 'row of a sent one') rowsOfSent.push(position);
    else if (next === 'row' || isLast) rows.push(position);
  }
  await Promise.all([owe(deps, delivery, rows, false), owe(deps, delivery, rowsOfSent, true)]);
}

function nextAfter(delivery: Delivery, answer: Answer): Next {
  const isBusy = answer === 'draining' || answer === 'refused';
  // It is connected, and its inbox takes no push that is only for now: a moment later it has caught up.
  return isBusy && !isKept(delivery) ? 'again' : AFTER[answer];
}

/**
 * Writes rows, then looks who is there now: a device that connected in between has read its inbox before the row
 * was in it, so its gateway is told to read again. Each side writes before it looks, so no timing matters.
 */
async function owe(
  deps: MqttDeps,
  delivery: Delivery,
  positions: readonly number[],
  sent: boolean,
): Promise<void> {
  if (positions.length === 0) return;
  if (!isKept(delivery)) return endAll(delivery, positions, OUTCOMES.expired);
  const { push, work, tokens } = delivery;
  const rows = positions.map((position) => ({
    token: tokens[position] ?? '',
    push: push._id,
    work: work.id,
    position,
    ...(push.collapse !== undefined && { collapse: push.collapse }),
    sent,
  }));
  const full = await deps.fullInboxes(rows.map(({ token }) => token));
  const kept = rows.filter(({ token }) => !full.has(token));
  const superseded = await deps.owe(kept);
  const places = await lookUp(deps, delivery, positions);
  const connected = rows.flatMap(({ token }, index) => {
    const place = places[index];
    return place === undefined || superseded.has(token) || full.has(token)
      ? []
      : [{ token, place }];
  });
  if (connected.length > 0) await redis(deps.handOver.drain(connected));
  for (const { token, position } of rows) {
    if (full.has(token)) delivery.end(position, failed('inbox-full'));
    else delivery.end(position, superseded.has(token) ? OUTCOMES.superseded : OUTCOMES.inbox);
  }
}

/** A time to live of 0 is only for devices that are connected now (guarantee G6). */
function isKept({ push }: Delivery): boolean {
  return push.expiresAt.getTime() > (push.dueAt ?? push.acceptedAt).getTime();
}

function endAll(delivery: Delivery, positions: readonly number[], outcome: number): void {
  for (const position of positions) delivery.end(position, outcome);
}

function lookUp(deps: MqttDeps, delivery: Delivery, positions: readonly number[]) {
  return redis(deps.whoIsOnline.look(positions.map((position) => delivery.tokens[position] ?? '')));
}

function handOver(deps: MqttDeps, { push, work }: Delivery, online: HandOverRecipient[]) {
  return redis(
    deps.handOver.handOver(
      {
        push: push._id,
        work: work.id,
        claim: work.claim,
        expiresAt: push.sendUntil.getTime(),
        ...(push.collapse !== undefined && { collapse: push.collapse }),
        payload: push.data,
      },
      online,
      WRITE_DEADLINE_MS,
    ),
  );
}

class RedisFailure extends Error {}

/** Marks what Redis threw, so that a failure of MongoDB isn't taken for one of Redis. */
async function redis<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw new RedisFailure('Redis failed', { cause: error });
  }
}

function isRedisFailure(error: unknown): boolean {
  return error instanceof RedisFailure;
}
