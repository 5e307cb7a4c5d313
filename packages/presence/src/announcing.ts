import { TTL } from './keys.ts';
import type { Link, Places } from './places.ts';

const TICK_MS = 100;
/** With the tick 2,500 a second: a gateway of 15,000 devices is announced again within 6 s. */
const LINKS_PER_TICK = 250;
/** Each place is renewed three times within its lifetime. */
const SWEEP_MS = (TTL.place / 3) * 1_000;

/** Keeps the places of a gateway's devices true. */
export interface Announcing {
  /** Announces a new connection. If Redis is away, later: then `onAnnounced` tells. */
  announce(link: Link): Promise<void>;
  /** Takes a closed connection's place away, now or once Redis is back. */
  withdraw(link: Link): Promise<void>;
  /** Announces all again, paced: a new identity. */
  announceAll(): void;
  stop(): void;
}

/**
 * @param on.links all open connections
 * @param on.isHere whether a connection is still open
 * @param on.announced announced late or again: meanwhile workers thought the device offline, so its inbox
 *   must be read
 * @param on.elsewhere the device has connected somewhere else
 */
export function createAnnouncing(
  places: Places,
  on: {
    links(): Iterable<Link>;
    isHere(link: Link): boolean;
    announced(link: Link): void;
    elsewhere(link: Link): void;
  },
): Announcing {
  const unannounced = new Map<string, Link>();
  const unremoved = new Map<string, Link>();
  let sweep: Link[] = [];
  let sweepStartedAt = performance.now();
  let busy = false;

  function due(): Link[] {
    const elapsed = performance.now() - sweepStartedAt;
    if (elapsed >= SWEEP_MS) {
      sweepStartedAt = performance.now();
      sweep = [...on.links()];
      return [];
    }
    const ticksLeft = Math.max(1, Math.floor((SWEEP_MS * 0.9 - elapsed) / TICK_MS));
    return sweep.splice(0, Math.ceil(sweep.length / ticksLeft));
  }

  async function renew(links: Link[]): Promise<void> {
    const elsewhere = new Set(await places.renew(links));
    for (const link of links) {
      const late = unannounced.delete(link.connection);
      if (elsewhere.has(link)) on.elsewhere(link);
      else if (late) on.announced(link);
    }
  }

  async function tick(): Promise<void> {
    const late = [...unannounced.values()].slice(0, LINKS_PER_TICK);
    for (const link of late) if (!on.isHere(link)) unannounced.delete(link.connection);
    const swept = due();
    const links = [...late, ...swept].filter(on.isHere);
    if (links.length > 0) await renew(links);
    for (const link of [...unremoved.values()].slice(0, LINKS_PER_TICK)) {
      unremoved.delete(link.connection);
      await withdraw(link);
    }
  }

  async function withdraw(link: Link): Promise<void> {
    unannounced.delete(link.connection);
    try {
      await places.remove(link);
    } catch {
      unremoved.set(link.connection, link);
      // Places end by themselves; what is older than that needs no removal.
      setTimeout(() => unremoved.delete(link.connection), TTL.place * 1_000).unref();
    }
  }

  const timer = setInterval(() => {
    if (busy) return;
    busy = true;
    tick()
      .catch(() => undefined)
      .finally(() => {
        busy = false;
      });
  }, TICK_MS);

  return {
    async announce(link) {
      try {
        await places.take(link);
      } catch {
        if (on.isHere(link)) unannounced.set(link.connection, link);
      }
    },
    withdraw,
    announceAll() {
      for (const link of on.links()) unannounced.set(link.connection, { ...link });
    },
    stop: () => clearInterval(timer),
  };
}
