/**
 * Maximum recipients in flight from one worker to one gateway that has not written them yet: four of the largest
 * batches.
 */
const MAX_UNHANDLED = 4_000;

/** Gives the room of a dispatch back. Idempotent. */
export type Release = () => void;

/** A dispatch that needs room. */
export interface RoomRequest {
  gateway: string;
  app: string;
  /** Number of its recipients. */
  size: number;
}

interface Waiter {
  size: number;
  resolve(release: Release | undefined): void;
}

/** The room of a worker at its gateways. */
export type GatewayRoom = ReturnType<typeof createGatewayRoom>;

/**
 * Creates the bound of what is in flight from a worker to each gateway. A gateway can write only so many recipients before the
 * deadline of a dispatch; what it has not written by then comes back. The apps whose dispatches wait take turns. Only the
 * worker holds the room: when it dies, nothing has to be released.
 */
export function createGatewayRoom() {
  const gateways = new Map<string, ReturnType<typeof createRoom>>();

  function roomOf(gateway: string) {
    const room = gateways.get(gateway) ?? createRoom(() => void gateways.delete(gateway));
    gateways.set(gateway, room);
    return room;
  }

  return {
    /** Takes room, of which one recipient needs none; undefined if there is none now, or others wait for it. */
    tryTake: ({ gateway, size }: Omit<RoomRequest, 'app'>): Release | undefined =>
      size === 1 ? () => undefined : roomOf(gateway).tryTake(size),
    /** Waits for room; undefined if the gateway turns out to be silent. */
    take: ({ gateway, app, size }: RoomRequest): Promise<Release | undefined> =>
      roomOf(gateway).take(app, size),
    /** Refuses the dispatches that wait for a gateway which has reported nothing. */
    refuseWaiting: (gateway: string): void => gateways.get(gateway)?.refuseWaiting(),
    /** Refuses all that wait. */
    close(): void {
      for (const room of gateways.values()) room.refuseWaiting();
    },
  };
}

/** Creates the room at one gateway. @param onUnused nothing is in flight, and nothing waits */
function createRoom(onUnused: () => void) {
  let unhandled = 0;
  /** By app, in the order of their turns. */
  const waiting = new Map<string, Waiter[]>();

  // A dispatch that is larger than the room goes alone.
  const fits = (size: number): boolean => unhandled === 0 || unhandled + size <= MAX_UNHANDLED;

  function hold(size: number): Release {
    let isHeld = true;
    unhandled += size;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      unhandled -= size;
      giveTurns();
      if (unhandled === 0) onUnused();
    };
  }

  function giveTurns(): void {
    for (let [turn] = waiting; turn !== undefined; [turn] = waiting) {
      const [app, queue] = turn;
      const [next] = queue;
      if (next !== undefined && !fits(next.size)) return;
      queue.shift();
      waiting.delete(app);
      // Its next turn comes after those of all other apps.
      if (queue.length > 0) waiting.set(app, queue);
      next?.resolve(hold(next.size));
    }
  }

  return {
    tryTake: (size: number): Release | undefined =>
      waiting.size === 0 && fits(size) ? hold(size) : undefined,
    take(app: string, size: number): Promise<Release | undefined> {
      const { promise, resolve } = Promise.withResolvers<Release | undefined>();
      const queue = waiting.get(app);
      if (queue === undefined) waiting.set(app, [{ size, resolve }]);
      else queue.push({ size, resolve });
      giveTurns();
      return promise;
    },
    refuseWaiting(): void {
      const refused = [...waiting.values()].flat();
      waiting.clear();
      for (const { resolve } of refused) resolve(undefined);
    },
  };
}
