import type { Socket } from 'node:net';

/**
 * Links whose handshake begins in one turn of the event loop: some 4 ms of work with TLS (0.5 ms each), so
 * that those begun come to their end, and connected devices get their turn in between.
 */
const BEGIN_PER_TURN = 8;
/** Who would wait longer is closed and comes back: clients give up after ten seconds or more. */
const LONGEST_WAIT_MS = 8_000;

/** A socket that nothing was read from yet. */
export interface Newcomer {
  socket: Socket;
  address: string;
}

/** Lets newcomers in one after another. */
export interface Pace {
  /** False: too many are before it. */
  enter(newcomer: Newcomer): boolean;
  waiting(): number;
  /** Closes those who wait. */
  stop(): void;
}

/** @param begin is called when it is a newcomer's turn */
export function createPace(begin: (newcomer: Newcomer) => void): Pace {
  let queue: (Newcomer & { since: number })[] = [];
  let next = 0;
  let turn: NodeJS.Immediate | undefined;

  function beginSome(): void {
    for (const newcomer of queue.slice(next, next + BEGIN_PER_TURN)) begin(newcomer);
    next = Math.min(next + BEGIN_PER_TURN, queue.length);
    if (next === queue.length) {
      queue = [];
      next = 0;
    }
    turn = queue.length > 0 ? setImmediate(beginSome) : undefined;
  }

  return {
    enter(newcomer) {
      const since = performance.now();
      const oldest = queue[next]?.since ?? since;
      if (since - oldest > LONGEST_WAIT_MS) return false;
      queue.push({ ...newcomer, since });
      turn ??= setImmediate(beginSome);
      return true;
    },
    waiting: () => queue.length - next,
    stop() {
      if (turn !== undefined) clearImmediate(turn);
      for (const { socket } of queue.slice(next)) socket.destroy();
      queue = [];
      next = 0;
    },
  };
}
