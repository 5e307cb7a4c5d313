/** Wrong credentials of one address an hour, after which it is not listened to. */
const WRONG_PER_HOUR = 100;
/** Links of one address a minute: a carrier's NAT stands for thousands of phones. */
const LINKS_PER_MINUTE = 3_000;
/** Times a minute that a device may connect: one that is refused elsewhere comes back about once a second. */
const CONNECTS_PER_MINUTE = 120;
/** And that it may take over from its own open link; two that share a token do nothing else. */
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
  /** A device connects, perhaps although a link of it is open; false: not so often. */
  connect(token: string, isTakeover: boolean): boolean;
  stop(): void;
}

export function createAddressLimits(): AddressLimits {
  const strangers = new Map<string, number>();
  const links = new Map<string, number>();
  const wrongs = new Map<string, number>();
  const connects = new Map<string, number>();
  const takeovers = new Map<string, number>();

  function count(map: Map<string, number>, key: string, by = 1): number {
    // Whoever has so many addresses can't be held off by address; memory is what is left to guard.
    if (map.size >= MAX_ADDRESSES) map.clear();
    const n = (map.get(key) ?? 0) + by;
    if (n > 0) map.set(key, n);
    else map.delete(key);
    return n;
  }

  const minutely = setInterval(() => {
    links.clear();
    connects.clear();
    takeovers.clear();
  }, 60_000);
  const hourly = setInterval(() => wrongs.clear(), 3_600_000);

  return {
    open(address) {
      const network = networkOf(address);
      const isTooMuch =
        count(links, network) > LINKS_PER_MINUTE ||
        (wrongs.get(network) ?? 0) >= WRONG_PER_HOUR ||
        (strangers.get(network) ?? 0) >= STRANGERS;
      if (!isTooMuch) count(strangers, network);
      return !isTooMuch;
    },
    known: (address) => void count(strangers, networkOf(address), -1),
    wrong: (address) => void count(wrongs, networkOf(address)),
    connect(token, isTakeover) {
      const isTooOften = isTakeover && count(takeovers, token) > TAKEOVERS_PER_MINUTE;
      return count(connects, token) <= CONNECTS_PER_MINUTE && !isTooOften;
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
  connect: () => true,
  stop: () => undefined,
};

/** One customer has a whole /64 of IPv6 addresses, and one address of IPv4. */
function networkOf(address: string): string {
  const [head = '', tail] = address.toLowerCase().split('::');
  if (!address.includes(':')) return address;
  const left = head.split(':').filter(Boolean);
  const right = (tail ?? '').split(':').filter(Boolean);
  // An IPv4 address in IPv6's clothes.
  if (right.length === 2 && right[0] === 'ffff') return right[1] ?? address;
  const zeros = Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => '0');
  return [...left, ...zeros, ...right].slice(0, 4).join(':');
}
