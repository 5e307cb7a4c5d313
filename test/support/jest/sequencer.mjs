import Sequencer from '@jest/test-sequencer';
import { isSharing } from './sharing.mjs';
import { FIRST } from './tiers.ts';

/** The order of the tiers within one run. */
const TIERS = ['fast', 'stack', 'long', 'browsers', 'python'];

/**
 * Sorts the files of a run: by tier, and in a tier those first that took longest the last time. The files that share
 * a stack come last, in an order drawn from a seed, so that none of them can rely on another one.
 */
export default class SharingSequencer extends Sequencer {
  #seed = Number(process.env.CARILLON_TEST_SEED ?? Math.floor(Math.random() * 1e9));

  async sort(tests) {
    const sorted = await super.sort(tests);
    const shared = sorted.filter(({ path }) => isSharing(path));
    if (shared.length > 1) {
      process.stderr.write(
        `the order of files on the shared stack: CARILLON_TEST_SEED=${this.#seed}\n`,
      );
    }
    const order = new Map(shuffle(shared, this.#seed).map((test, at) => [test, at + 1]));
    for (const test of sorted.filter(isFirst)) order.set(test, -1);
    const placeOf = (test) => [
      TIERS.indexOf(test.context.config.displayName.name),
      order.get(test) ?? 0,
    ];
    return sorted.sort((a, b) => {
      const [[tierA, atA], [tierB, atB]] = [placeOf(a), placeOf(b)];
      return tierA - tierB || atA - atB;
    });
  }
}

function isFirst({ path }) {
  return FIRST.some((name) => path.endsWith(`/${name}`));
}

/** Shuffles by path first, so that a seed gives one order whatever the times of the last run. */
function shuffle(tests, seed) {
  const shuffled = tests.toSorted((a, b) => (a.path < b.path ? -1 : 1));
  const random = createRandom(seed);
  for (let i = shuffled.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [shuffled[i], shuffled[j]] = [shuffled[j], shuffled[i]];
  }
  return shuffled;
}

/** The generator mulberry32: numbers in [0, 1) from a seed of 32 bits. */
function createRandom(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
