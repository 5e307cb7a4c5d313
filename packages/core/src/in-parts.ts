/**
 * Number of items that are worked on without a pause: some milliseconds of the event loop, on which the requests of others
 * wait.
 */
const ITEMS_PER_PART = 10_000;

/** Resolves after the events that have arrived meanwhile, such as other requests, have been handled. */
const afterOthers = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Calls `visit` for each item, with pauses for the event loop. */
export async function visitInParts<T>(
  items: readonly T[],
  visit: (item: T) => void,
): Promise<void> {
  for (let from = 0; from < items.length; from += ITEMS_PER_PART) {
    if (from > 0) await afterOthers();
    for (const item of items.slice(from, from + ITEMS_PER_PART)) visit(item);
  }
}

/** Returns a sorted copy, as `sort()` gives it, with pauses for the event loop: a merge sort of sorted parts. */
export async function sortInParts(items: readonly string[]): Promise<string[]> {
  let runs: string[][] = [];
  for (let from = 0; from < items.length; from += ITEMS_PER_PART) {
    if (from > 0) await afterOthers();
    runs.push(items.slice(from, from + ITEMS_PER_PART).sort());
  }
  while (runs.length > 1) {
    const merged: string[][] = [];
    for (let n = 0; n < runs.length; n += 2) merged.push(await merge(runs[n] ?? [], runs[n + 1]));
    runs = merged;
  }
  return runs[0] ?? [];
}

async function merge(left: string[], right: string[] = []): Promise<string[]> {
  const [firstRight] = right;
  // Those of parts that are in order already, as from an index, need no comparison each.
  if (firstRight === undefined || (left.at(-1) ?? '') <= firstRight) return left.concat(right);
  const merged: string[] = [];
  let [l, r] = [0, 0];
  while (l < left.length && r < right.length) {
    const [ofLeft, ofRight] = [left[l] ?? '', right[r] ?? ''];
    if (ofLeft <= ofRight) {
      merged.push(ofLeft);
      l += 1;
    } else {
      merged.push(ofRight);
      r += 1;
    }
    if (merged.length % ITEMS_PER_PART === 0) await afterOthers();
  }
  return merged.concat(left.slice(l), right.slice(r));
}
