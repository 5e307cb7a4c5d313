/**
 * Creates the function that chooses a shard for a key: the same one in each process with the same names, in whatever
 * order. Each shard has a weight for each key, and the highest wins (rendezvous hashing): when a name joins or leaves the
 * list, only the keys that it wins or had won move.
 *
 * @returns the index of the name
 */
export function createChoice(names: readonly string[]): (key: string) => number {
  if (names.length === 1) return () => 0;
  const seeds = names.map(hash);
  return (key) => {
    const keyHash = hash(key);
    let best = 0;
    let highest = -1;
    for (const [index, seed] of seeds.entries()) {
      const weight = mix(keyHash ^ seed);
      if (weight <= highest) continue;
      best = index;
      highest = weight;
    }
    return best;
  };
}

/** FNV-1a with 32 bits. It must not change: gateways and workers of different releases find devices by it. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1)
    value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return mix(value);
}

/** The last step of MurmurHash3, in which each bit of the input changes half of the output's. */
function mix(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
