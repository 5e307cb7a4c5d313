import { type Clock, PROCESS_CLOCK } from '@carillon/runtime/clock';

/** Maximum attempts that wait for one key; of more than that, one drawn at random is rejected. */
const MAX_WAITING = 32;
/** Maximum attempts that wait for all keys. */
const MAX_WAITING_IN_ALL = 1_000;

/** Clock of the turns. */
export type TurnClock = Pick<Clock, 'now' | 'after'>;

/** A wait for a turn. */
interface TurnRequest {
  /** Returns the milliseconds until the next turn; 0 or less: it may be taken now. */
  readWait(): number;
  /** Called at the beginning of the turn, before the next one is scheduled. */
  begin(): void;
  /** Ends the wait. */
  signal: AbortSignal;
}

interface Waiting extends TurnRequest {
  resolve(hasTurn: boolean): void;
}

/**
 * Creates turns by key. Of those that wait for a turn of the same key, one is drawn at random, so that each has the
 * same chance, whatever their order and number. The number of those that wait is bounded.
 */
export function createTurns(clock: TurnClock = PROCESS_CLOCK, random: () => number = Math.random) {
  const queues = new Map<string, Waiting[]>();
  let waitingInAll = 0;

  function leave(key: string, one: Waiting, hasTurn: boolean): void {
    const queue = queues.get(key);
    const position = queue?.indexOf(one) ?? -1;
    if (queue === undefined || position === -1) return;
    queue.splice(position, 1);
    waitingInAll -= 1;
    if (hasTurn) one.begin();
    one.resolve(hasTurn);
  }

  function draw(queue: readonly Waiting[]): Waiting | undefined {
    return queue[Math.floor(random() * queue.length)];
  }

  /** Schedules the next turn of a key; the timer runs while an attempt waits. */
  function schedule(key: string): void {
    const [first] = queues.get(key) ?? [];
    if (first === undefined) return void queues.delete(key);
    clock.after(Math.max(1, first.readWait()), () => {
      const queue = queues.get(key) ?? [];
      const next = first.readWait() <= 0 ? draw(queue) : undefined;
      if (next !== undefined) leave(key, next, true);
      schedule(key);
    });
  }

  return {
    /** Waits for a turn. Returns true when it has come, and false when the signal came before, or too many wait. */
    async take(key: string, request: TurnRequest): Promise<boolean> {
      if (!queues.has(key) && request.readWait() <= 0) {
        request.begin();
        return true;
      }
      if (request.signal.aborted || waitingInAll >= MAX_WAITING_IN_ALL) return false;
      return new Promise((resolve) => {
        const isFirst = !queues.has(key);
        const queue = queues.get(key) ?? [];
        queues.set(key, queue);
        const one: Waiting = { ...request, resolve };
        queue.push(one);
        waitingInAll += 1;
        request.signal.addEventListener('abort', () => leave(key, one, false), { once: true });
        const excess = queue.length > MAX_WAITING ? draw(queue) : undefined;
        if (excess !== undefined) leave(key, excess, false);
        if (isFirst) schedule(key);
      });
    },
  };
}
