import { failed, OUTCOMES } from '@carillon/core/outcomes';
import type { Channel } from '@carillon/core/platforms';
import type { GoneDevice, ReachableDevice } from '@carillon/store/devices';
import type { DeliverByChannel, Delivery, PutOff } from './channel.ts';
import type { Leave } from './circuit.ts';
import { keepProgress, type Progress } from './progress.ts';
import type { Address, Attempt, ProviderPush, Send } from './provider.ts';
import { retryDelayMs } from './retry.ts';
import type { Line, Route } from './route.ts';
import type { Routes, Ways } from './routes.ts';

/** Work of more recipients than this waits for a place, so that lone pushes aren't held up by a fan-out. */
const SMALL = 50;
/** A wait that isn't worth giving the work back for, and how often. */
const QUICK_MS = 250;
const QUICK_ROUNDS = 3;
/** What other requests have learnt is waited for; the circuit then says how long. */
const LEAST_REST_MS = 1_000;
const CROWDED_WAIT_MS = 1_000;

/** What delivering through a provider needs. */
export interface ProviderDeps {
  channel: Channel;
  routes: Routes;
  /** Requests of one unit of work under way at once. */
  window: number;
  addresses(app: string, tokens: readonly string[]): Promise<ReachableDevice[]>;
  flagGone(gone: readonly GoneDevice[]): Promise<void>;
  /** Told each answer, for the metrics and the log. */
  tell(push: string, attempt: Attempt): void;
  pause(ms: number): Promise<void>;
  /** Milliseconds since 1970 by MongoDB's clock. */
  now(): number;
}

interface Recipient {
  position: number;
  token: string;
  address: Address;
  route: Route;
  line: Line;
}

/** One unit of work on its way. */
interface Run {
  deps: ProviderDeps;
  delivery: Delivery;
  sends: Map<Route, Send>;
  gone: GoneDevice[];
  /** Whom the provider has put off, by position. */
  later: Map<number, PutOff>;
  /** The shortest wait that anything left over asks for. */
  waitMs: number;
  progress: Progress;
}

/**
 * Delivers through a provider: addresses in one query, requests within the line's window, outcomes kept as they
 * come. What the provider puts off, and what a resting line leaves, is given back for the earliest time that makes
 * sense. Whether the push may still be sent is asked before each request.
 */
export function createDeliverByProvider(deps: ProviderDeps): DeliverByChannel {
  return async (delivery) => {
    const ways = await deps.routes.of(delivery.push.app);
    if (ways === undefined) {
      endAll(delivery, failed('channel-not-configured'));
      return { done: true };
    }
    try {
      if (ways.isCrowded()) return { done: false, retryAfterMs: CROWDED_WAIT_MS };
      return await deliverBy(deps, delivery, ways);
    } finally {
      ways.release();
    }
  };
}

async function deliverBy(deps: ProviderDeps, delivery: Delivery, ways: Ways) {
  const leave = delivery.open.size > SMALL ? await ways.large.enter() : undefined;
  const later: Run['later'] = new Map(
    delivery.work.work.later?.map(([position, untilMs, times]) => [position, { untilMs, times }]),
  );
  const save = () => delivery.save(laterOf({ later, delivery }));
  const progress = keepProgress(save, () => delivery.open.size > 0);
  const waitMs = Number.POSITIVE_INFINITY;
  const run: Run = { deps, delivery, sends: new Map(), gone: [], later, waitMs, progress };
  try {
    const maySend = await sendAll(run, ways);
    await deps.flagGone(run.gone);
    if (delivery.open.size === 0) return { done: true } as const;
    await progress.stop();
    await save();
    const retryAfterMs = maySend && Number.isFinite(run.waitMs) ? Math.ceil(run.waitMs) : 0;
    return { done: false, retryAfterMs } as const;
  } finally {
    await progress.stop();
    leave?.();
  }
}

/** Sends what is open, and again what had to wait only a moment. False: nothing may be sent any more. */
async function sendAll(run: Run, ways: Ways): Promise<boolean> {
  for (let round = 0; ; round += 1) {
    if (!(await run.delivery.maySend())) return false;
    run.waitMs = Number.POSITIVE_INFINITY;
    const recipients = await findRecipients(run, ways);
    const maySend = await sendRound(run, recipients);
    const isWorthWaiting = run.waitMs <= QUICK_MS && round < QUICK_ROUNDS;
    if (!maySend || run.delivery.open.size === 0 || !isWorthWaiting) return maySend;
    await run.deps.pause(run.waitMs);
  }
}

/** The open recipients with their addresses; those that have none end here. */
async function findRecipients(run: Run, ways: Ways): Promise<Recipient[]> {
  const { deps, delivery } = run;
  const { open, tokens, push, end } = delivery;
  const positions = [...open].filter((position) => isDue(run, position));
  const wanted = positions.map((position) => tokens[position] ?? '');
  const found = await deps.addresses(push.app, wanted);
  const lacksRoute = ({ provider }: ReachableDevice) =>
    provider?.channel === deps.channel && ways.routeFor(provider) === undefined;
  // The owner may just have added the credential: what was accepted since must not fail for want of it.
  if (found.some(lacksRoute)) await ways.refresh();
  const devices = new Map(found.map((device) => [device._id, device]));
  return positions.flatMap((position, index) => {
    const token = wanted[index] ?? '';
    const device = devices.get(token);
    if (device === undefined || device.uninstalled || device.unsubscribed) {
      end(position, OUTCOMES.gone);
      return [];
    }
    const address = device.provider;
    if (address?.channel !== deps.channel) {
      end(position, failed('no-provider-address'));
      return [];
    }
    const route = ways.routeFor(address);
    if (route === undefined) {
      end(position, failed(ways.areConfigured() ? 'wrong-credential' : 'channel-not-configured'));
      return [];
    }
    return [{ position, token, address, route, line: route.lineOf(address) }];
  });
}

/** Whether a recipient may be tried now; else its wait counts. */
function isDue(run: Run, position: number): boolean {
  const waitMs = (run.later.get(position)?.untilMs ?? 0) - run.deps.now();
  if (waitMs <= 0) return true;
  run.waitMs = Math.min(run.waitMs, waitMs);
  return false;
}

/** Each recipient once, a window of them at a time. False: nothing may be sent any more. */
async function sendRound(run: Run, recipients: readonly Recipient[]): Promise<boolean> {
  let next = 0;
  let maySend = true;
  async function sendSome(): Promise<void> {
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
  const width = Math.min(run.deps.window, recipients.length);
  // All of them to their end: what is still on its way belongs to this run.
  const ends = await Promise.allSettled(Array.from({ length: width }, sendSome));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
  return maySend;
}

/** False: nothing may be sent any more. */
async function sendOne(run: Run, recipient: Recipient): Promise<boolean> {
  const { window, circuit } = recipient.line;
  const leaveWindow = await window.enter();
  try {
    // In its place in the window, so that nobody is on the way in its stead.
    await run.progress.saveIfDue();
    if (!(await run.delivery.maySend())) return false;
    const leave = circuit.enter();
    if (typeof leave === 'number') {
      run.waitMs = Math.min(run.waitMs, leave);
      return true;
    }
    const attempt = await trySend(run, recipient, leave);
    run.deps.tell(run.delivery.push._id, attempt);
    note(run, recipient, leave, attempt);
    return true;
  } finally {
    leaveWindow();
  }
}

async function trySend(run: Run, recipient: Recipient, leave: Leave): Promise<Attempt> {
  const { route, line, address } = recipient;
  try {
    let send = run.sends.get(route);
    if (send === undefined) {
      send = route.client.begin(asProviderPush(run.delivery));
      run.sends.set(route, send);
    }
    return await send(address);
  } catch (error) {
    // A surprise, not an answer: the work is repeated when its lease ends, and a probe must not stay out for ever.
    line.circuit.left(leave);
    throw error;
  }
}

/** Acts on an answer. */
function note(run: Run, recipient: Recipient, leave: Leave, attempt: Attempt): void {
  const { position, token, address, route, line } = recipient;
  const end = (outcome: number): void => {
    run.delivery.end(position, outcome);
    run.progress.ended();
  };
  if (attempt.kind === 'refused') {
    const restMs = line.circuit.refused(leave);
    if (restMs !== undefined) route.refused(attempt.detail, restMs);
    // The line rests, not the recipient: a credential put right is tried at once.
    run.waitMs = Math.min(run.waitMs, restMs ?? LEAST_REST_MS);
    return;
  }
  if (attempt.kind === 'retry' && attempt.scope === 'line') {
    line.circuit.failed(leave, attempt.afterMs);
    putOff(run, position, attempt.afterMs);
    return;
  }
  line.circuit.worked(leave);
  if (attempt.kind === 'retry') {
    putOff(run, position, attempt.afterMs);
    return;
  }
  route.accepted();
  if (attempt.kind === 'sent') end(OUTCOMES.sent);
  else if (attempt.kind === 'rejected') end(failed(attempt.reason));
  else {
    end(OUTCOMES.gone);
    const { flag, lastSeenAt } = attempt;
    run.gone.push({ token, address: address.address, flag, ...(lastSeenAt && { lastSeenAt }) });
  }
}

function putOff(run: Run, position: number, afterMs: number | undefined): void {
  const times = run.later.get(position)?.times ?? 0;
  const delayMs = retryDelayMs(times, afterMs, Math.random);
  run.later.set(position, { untilMs: run.deps.now() + delayMs, times: times + 1 });
  run.waitMs = Math.min(run.waitMs, delayMs);
}

/** Who was put off and has no end yet. */
function laterOf({ later, delivery }: Pick<Run, 'later' | 'delivery'>): Map<number, PutOff> {
  return new Map([...later].filter(([position]) => delivery.open.has(position)));
}

function asProviderPush({ push }: Delivery): ProviderPush {
  const { _id, data, options = {}, expiresAt } = push;
  const startsAt = push.dueAt ?? push.acceptedAt;
  return { id: _id, data, options, expiresAt, nowOnly: expiresAt.getTime() <= startsAt.getTime() };
}

function endAll(delivery: Delivery, outcome: number): void {
  for (const position of [...delivery.open]) delivery.end(position, outcome);
}
