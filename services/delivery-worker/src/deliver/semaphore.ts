/**
 * A number of permits; callers wait in order, those of several apps in turns. Own code, not p-limit: a permit is held across
 * several functions.
 */
export interface Semaphore {
  /** Resolves with a function that releases the permit; a second call does nothing. */
  acquire(app?: string): Promise<() => void>;
}

/** A semaphore whose permits can be limited for a time. */
export interface AdjustableSemaphore extends Semaphore {
  /** Leaves one permit, besides those that are held: they stay valid, and are not given again. */
  shrinkToOne(): void;
  /** Gives back one of the permits that were taken away. */
  growByOne(): void;
}

/** Callers of an app that get permits before those of the next one: the pushes of a job, so that jobs end one after the other. */
const CALLERS_PER_TURN = 50;

/** Gets a permit of a generation. */
type Caller = (generation: number) => void;

/** The callers of an app that wait. */
interface WaitingApp {
  // A Set keeps the order and removes its first entry without moving the others.
  callers: Set<Caller>;
  /** Callers that get a permit in this turn. */
  left: number;
}

/** Creates a semaphore. */
export function createSemaphore(permits: number): AdjustableSemaphore {
  let limit = permits;
  let held = 0;
  /** Permits that were given before the last limitation are of an earlier generation. */
  let generation = 0;
  /** The apps that wait in turns, and those that came since, each of which gets one permit before them: most need no more. */
  const waiting = new Map<string, WaitingApp>();
  const arrived = new Map<string, WaitingApp>();

  function add(app: string, caller: Caller): void {
    const known = arrived.get(app) ?? waiting.get(app);
    if (known !== undefined) known.callers.add(caller);
    else arrived.set(app, { callers: new Set([caller]), left: 1 });
  }

  /** Removes the next caller. */
  function takeNext(): Caller | undefined {
    const apps = arrived.size > 0 ? arrived : waiting;
    const [[app, turn] = []] = apps;
    const [caller] = turn?.callers ?? [];
    if (app === undefined || turn === undefined || caller === undefined) return undefined;
    turn.callers.delete(caller);
    turn.left -= 1;
    if (turn.callers.size === 0 || turn.left === 0) apps.delete(app);
    if (turn.callers.size > 0 && turn.left === 0)
      waiting.set(app, { callers: turn.callers, left: CALLERS_PER_TURN });
    return caller;
  }

  function admit(): void {
    while (held < limit) {
      const caller = takeNext();
      if (caller === undefined) return;
      held += 1;
      caller(generation);
    }
  }

  return {
    async acquire(app = '') {
      const given = await new Promise<number>((resolve) => {
        add(app, resolve);
        admit();
      });
      let isHeld = true;
      return () => {
        if (isHeld && given === generation) held -= 1;
        isHeld = false;
        admit();
      };
    },
    shrinkToOne(): void {
      limit = 1;
      held = 0;
      generation += 1;
    },
    growByOne(): void {
      limit = Math.min(permits, limit + 1);
      admit();
    },
  };
}
