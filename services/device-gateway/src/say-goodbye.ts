import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from './connection.ts';
import type { Connections } from './connections.ts';

const TICK_MS = 50;
/** Receipts that are on their way may still come. */
const LAST_RECEIPTS_MS = 1_000;
/** A device's answer to the closing of TLS or WebSocket. */
const LAST_WORDS_MS = 500;

/** Closes all links, spread over time, so that their devices don't come back all at once (guarantee G17). */
export async function sayGoodbye(connections: Connections, seconds: number): Promise<void> {
  const leaving = [...connections.all()];
  const perTick = Math.max(1, Math.ceil((leaving.length * TICK_MS) / (seconds * 1_000)));
  const ends: Promise<void>[] = [];
  while (leaving.length > 0) {
    for (const connection of leaving.splice(0, perTick)) ends.push(end(connections, connection));
    if (leaving.length > 0) await sleep(TICK_MS);
  }
  await Promise.all(ends);
}

async function end(connections: Connections, connection: Connection): Promise<void> {
  connections.leave(connection);
  await within(LAST_RECEIPTS_MS, () => connection.inFlight.length === 0);
  // Some clients give up for good when TLS breaks off, and come back when it is closed in good order.
  connection.wire.end();
  await within(LAST_WORDS_MS, () => connection.state === 'closed');
  connections.close(connection, 'restart');
}

async function within(ms: number, isMet: () => boolean): Promise<void> {
  const until = performance.now() + ms;
  while (!isMet() && performance.now() < until) await sleep(TICK_MS);
}
