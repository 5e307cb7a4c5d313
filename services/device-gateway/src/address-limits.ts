/** Wrong credentials of one address an hour, after which it is not listened to. */
const WRONG_PER_HOUR = 100;
/** Links of one address a minute: a carrier's NAT stands for thousands of phones. */
const LINKS_PER_MINUTE = 3_000;
/** Times a minute that a device may take over from its own open link; two that share a token do nothing else. */
const TAKEOVERS_PER_MINUTE = 60;
/** Links of one address that have not said who they are. */
const STRANGERS = 500;
const MAX_ADDRESSES = 50_000;

/** Holds off addresses that flood or guess; legitimate devices behind the same address pass. */
export interface AddressLimits {
  /** Counts a new link; false: close it at once. */
  open(address: string): boolean;
  /** The link has said who it is, or closed before it did. */
  known(address: string): void;
  wrong(address: string): void;
  /** A device connects although a link of it is open; false: not so often. */
  takeOver(token: string): boolean;
  stop(): void;
}

export function createAddressLimits(): AddressLimits {
  const strangers = new Map<string, number>();
  const links = new Map<string, number>();
  const wrongs = new Map<string, number>();
  const takeovers = new Map<string, number>();

  function count(map: Map<string, number>, address: string, by = 1): void {
    // Whoever has so many addresses can't be held off by address; memory is what is left to guard.
    if (map.size >= MAX_ADDRESSES) map.clear();
    const n = (map.get(address) ?? 0) + by;
    if (n > 0) map.set(address, n);
    else map.delete(address);
  }

  const minutely = setInterval(() => {
    links.clear();
    takeovers.clear();
  }, 60_000);
  const hourly = setInterval(() => wrongs.clear(), 3_600_000);

  return {
    open(address) {
      count(links, address);
      const isTooMuch =
        (links.get(address) ?? 0) > LINKS_PER_MINUTE ||
        (wrongs.get(address) ?? 0) >= WRONG_PER_HOUR ||
        (strangers.get(address) ?? 0) >= STRANGERS;
      if (!isTooMuch) count(strangers, address);
      return !isTooMuch;
    },
    known: (address) => count(strangers, address, -1),
    wrong: (address) => count(wrongs, address),
    takeOver(token) {
      count(takeovers, token);
      return (takeovers.get(token) ?? 0) <= TAKEOVERS_PER_MINUTE;
    },
    stop() {
      clearInterval(minutely);
      clearInterval(hourly);
    },
  };
}

/** No limits, for load from one machine. */
export const NO_ADDRESS_LIMITS: AddressLimits = {
  open: () => true,
  known: () => undefined,
  wrong: () => undefined,
  takeOver: () => true,
  stop: () => undefined,
};
