import { findConcerned } from '../support/jest/concerned.ts';
import { divide, estimateSeconds } from '../support/jest/slices.ts';
import { filesOf, type Tier } from '../support/jest/tiers.ts';

/** Run for each change. */
const ALWAYS = ['fast', 'stack'];
/** Its files share the images, which take minutes to build. */
const UNDIVIDED = 'deploy';

/** A run of Jest. */
export interface Part {
  title: string;
  files: string[];
  /** What it takes where the files were measured. */
  seconds: number;
}

/** What CI runs. A file may be in several parts: it is run with the first for which there is time. */
export interface Plan {
  /** What `npm test` runs. */
  daily: Pick<Part, 'title' | 'files'>;
  parts: Part[];
  /** Titles of parts that other runs have. */
  leftOut: string[];
}

/** What a plan depends on. */
export interface Situation {
  tiers: readonly Tier[];
  secondsOf: Readonly<Record<string, number>>;
  /** Paths of the files that changed; undefined means that all tests are run. */
  changes: readonly string[] | undefined;
  /** Number of commits: chooses the slice, so that runs have different ones. */
  commits: number;
}

/** Plans a run: what `npm test` runs, the tiers and test files that changes concern, and a slice of the rest. */
export function makePlan({ tiers, secondsOf, changes, commits }: Situation): Plan {
  const isDaily = ({ name }: Tier) => ALWAYS.includes(name);
  const daily = { title: ALWAYS.join(', '), files: tiers.filter(isDaily).flatMap(filesOf) };
  const rest = tiers.filter((tier) => !isDaily(tier));
  const measure = (title: string, files: string[]): Part => {
    return { title, files, seconds: estimateSeconds(rest, files, secondsOf) };
  };
  const slice = (title: string, some: readonly Tier[]) =>
    rotate(
      divide(some, secondsOf).map((files, index, { length }) =>
        measure(`${title} ${index + 1} of ${length}`, files),
      ),
      commits,
    );
  const slices = slice('slice', rest);
  const concerned = changes && findConcerned(changes);
  if (concerned === undefined) return { daily, parts: slices, leftOut: [] };

  // A tier that can't be divided comes first: after parts of others there would be no time for it.
  const inOrder = rest.toSorted((a, b) => rank(a) - rank(b));
  const changed = inOrder.flatMap((tier) => {
    const path = concerned.tiers.get(tier.name);
    if (path === undefined) return [];
    const title = `${tier.name} (${path} changed)`;
    return tier.name === UNDIVIDED
      ? [[measure(title, filesOf(tier))]]
      : [slice(`${title}, part`, [tier])];
  });
  const own = concerned.files.filter((path) => !daily.files.includes(path));
  const ofChanges = own.length > 0 ? [measure('changed test files', own)] : [];
  return {
    daily,
    parts: [...ofChanges, ...takeTurns(changed), ...slices.slice(0, 1)],
    leftOut: slices.slice(1).map(({ title }) => title),
  };
}

function rank({ name }: Tier): number {
  return name === UNDIVIDED ? 0 : 1;
}

/** Puts the first part of each tier before the second ones, so that a long tier leaves time for the others. */
function takeTurns(tiers: readonly (readonly Part[])[]): Part[] {
  const longest = Math.max(0, ...tiers.map(({ length }) => length));
  return Array.from({ length: longest }, (_, at) =>
    tiers.flatMap((parts) => parts[at] ?? []),
  ).flat();
}

/** Makes another entry the first one in each run. */
function rotate<T>(entries: readonly T[], by: number): T[] {
  const at = by % entries.length;
  return [...entries.slice(at), ...entries.slice(0, at)];
}
