import type { AddressLimits } from './address-limits.ts';
import type { Wire } from './wire.ts';

/** Time for a new link to say who it is, handshakes of its transport included. */
const CONNECT_WITHIN_MS = 5_000;
const LOOK_EVERY_MS = 250;

/** A link whose device hasn't proved who it is. */
export interface Stranger {
  address: string;
  readonly openedAt: number;
  /** Changes while the transport is built up: first the bare socket, then TLS or WebSocket over it. */
  wire: Wire;
  /** Its CONNECT is being looked at, which has a limit of its own. */
  isHeard: boolean;
}

/** All strangers of a process; those that take too long are closed. */
export interface Strangers {
  count(): number;
  add(wire: Wire, address: string): Stranger;
  /** It is known now, or gone. */
  forget(stranger: Stranger): void;
  /** Closes all. */
  stop(): void;
}

export function createStrangers(limits: Pick<AddressLimits, 'known'>): Strangers {
  const all = new Set<Stranger>();

  function forget(stranger: Stranger): void {
    if (all.delete(stranger)) limits.known(stranger.address);
  }

  function closeLate(): void {
    const latest = performance.now() - CONNECT_WITHIN_MS;
    for (const stranger of all) {
      const { openedAt, isHeard, wire } = stranger;
      if (openedAt < latest && !isHeard) wire.destroy();
      // Nobody else follows a link that closes before MQTT begins.
      if (wire.destroyed) forget(stranger);
    }
    if (all.size === 0) stopLooking();
  }

  /** Runs while there is a stranger. */
  let timer: NodeJS.Timeout | undefined;
  function stopLooking(): void {
    clearInterval(timer);
    timer = undefined;
  }
  return {
    count: () => all.size,
    add(wire, address) {
      const stranger = { address, openedAt: performance.now(), wire, isHeard: false };
      all.add(stranger);
      timer ??= setInterval(closeLate, LOOK_EVERY_MS);
      return stranger;
    },
    forget,
    stop() {
      stopLooking();
      for (const { wire } of all) wire.destroy();
    },
  };
}
