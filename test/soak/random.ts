/** Random numbers that a seed decides. */
export interface Random {
  /** Returns a number from 0 up to 1. */
  next(): number;
  /** Returns an integer from `min` to `max`. */
  between(min: number, max: number): number;
  pick<T>(list: readonly [T, ...T[]]): T;
  /** Returns some of a list, each at most once. */
  sample<T>(list: readonly T[], count: number): T[];
}

/** Creates the numbers of a seed (mulberry32). */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }
  const between = (min: number, max: number) => min + Math.floor(next() * (max - min + 1));
  return {
    next,
    between,
    pick: (list) => list[between(0, list.length - 1)] ?? list[0],
    sample(list, count) {
      const rest = [...list];
      const size = Math.min(count, rest.length);
      return Array.from({ length: size }, () => rest.splice(between(0, rest.length - 1), 1)).flat();
    },
  };
}
