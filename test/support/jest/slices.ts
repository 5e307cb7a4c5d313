import { filesOf, type Tier } from './tiers.ts';

/** Seconds that a slice takes at most, on the machine on which the files were measured. */
export const MAX_SLICE_SECONDS = 600;
/** Seconds of a file that was not measured yet. */
const UNKNOWN_SECONDS = 60;
/** Number of files that are run side by side. */
const LANES = 2;

/** Measured seconds of a test file, by its path from the repository's root. */
type Seconds = Readonly<Record<string, number>>;

/** What a list of files takes together. */
interface Load {
  oneByOne: number;
  sideBySide: number;
  longestBeside: number;
}

/**
 * Divides the files of tiers into slices of about the same length, as few as {@link MAX_SLICE_SECONDS} allows. The same
 * files and seconds give the same slices.
 */
export function divide(tiers: readonly Tier[], secondsOf: Seconds): string[][] {
  const files = tiers
    .flatMap(filesOf)
    .map((file) => ({ file, load: loadOf(tiers, file, secondsOf) }))
    .toSorted((a, b) => lengthOf(b.load) - lengthOf(a.load) || (a.file < b.file ? -1 : 1));
  for (let count = 1; ; count += 1) {
    const slices = fill(count, files);
    if (slices.every((slice) => lengthOf(slice.load) <= MAX_SLICE_SECONDS || isSingle(slice))) {
      return slices.map((slice) => slice.files);
    }
  }
}

/** Estimates how many seconds files of these tiers take in one run. */
export function estimateSeconds(
  tiers: readonly Tier[],
  files: readonly string[],
  secondsOf: Seconds,
): number {
  return lengthOf(files.map((file) => loadOf(tiers, file, secondsOf)).reduce(add, NO_LOAD));
}

function isSingle({ files }: { files: readonly string[] }): boolean {
  return files.length <= 1;
}

const NO_LOAD: Load = { oneByOne: 0, sideBySide: 0, longestBeside: 0 };

/** Puts each file, the longest first, where it leaves the shortest slice. */
function fill(count: number, files: readonly { file: string; load: Load }[]) {
  const slices = Array.from({ length: count }, () => ({ files: [] as string[], load: NO_LOAD }));
  for (const { file, load } of files) {
    const lengths = slices.map((slice) => lengthOf(add(slice.load, load)));
    const shortest = slices[lengths.indexOf(Math.min(...lengths))];
    shortest?.files.push(file);
    if (shortest !== undefined) shortest.load = add(shortest.load, load);
  }
  return slices;
}

function loadOf(tiers: readonly Tier[], file: string, secondsOf: Seconds): Load {
  const seconds = secondsOf[file] ?? UNKNOWN_SECONDS;
  const isBeside = tiers.some(({ sideBySide }) => sideBySide.includes(file));
  return isBeside
    ? { oneByOne: 0, sideBySide: seconds, longestBeside: seconds }
    : { ...NO_LOAD, oneByOne: seconds };
}

function add(a: Load, b: Load): Load {
  return {
    oneByOne: a.oneByOne + b.oneByOne,
    sideBySide: a.sideBySide + b.sideBySide,
    longestBeside: Math.max(a.longestBeside, b.longestBeside),
  };
}

function lengthOf({ oneByOne, sideBySide, longestBeside }: Load): number {
  return oneByOne + Math.max(longestBeside, sideBySide / LANES);
}
