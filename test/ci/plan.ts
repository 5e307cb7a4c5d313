import { findConcerned } from '../support/jest/concerned.ts';
import { divide, estimateSeconds } from '../support/jest/slices.ts';
import { filesOf, type Tier } from '../support/jest/tiers.ts';

/** Run for each change. */
const ALWAYS = ['fast', 'stack'];

/** A run of Jest. */
export interface Part {
  title: string;
  /** Arguments of `npm test`. */
  args: string[];
  files: string[];
  /** What it takes where the files were measured; 0 if nothing depends on it. */
  seconds: number;
}

/** What CI runs. */
export interface Plan {
  parts: Part[];
  /** Titles of parts that other runs have. */
  leftOut: string[];
}

/** What a plan depends on. */
export interface Situation {
  tiers: readonly Tier[];
  secondsOf: Readonly<Record<string, number>>;
  /** Paths of the files that changed; undefined: all tests are run. */
  changes: readonly string[] | undefined;
  /** Number of commits: chooses the slice, so that runs have different ones. */
  commits: number;
}

/** Plans a run: what `npm test` runs, the tiers and test files that changes concern, and a slice of the rest. */
export function makePlan({ tiers, secondsOf, changes, commits }: Situation): Plan {
  const isDaily = ({ name }: Tier) => ALWAYS.includes(name);
  const daily = { title: ALWAYS.join(', '), args: [], files: listFiles(tiers.filter(isDaily)) };
  const rest = tiers.filter((tier) => !isDaily(tier));
  const measure = (title: string, args: string[], files: string[]): Part => {
    return { title, args, files, seconds: estimateSeconds(rest, files, secondsOf) };
  };
  const select = (title: string, files: string[]) =>
    measure(title, ['--runTestsByPath', ...files], files);

  const all = divide(rest, secondsOf).map((files, index, { length }) =>
    select(`slice ${index + 1} of ${length}`, files),
  );
  const first = commits % all.length;
  const [slice, ...others] = [...all.slice(first), ...all.slice(0, first)];
  const concerned = changes && findConcerned(changes);
  if (slice === undefined || concerned === undefined) {
    return { parts: [{ ...daily, seconds: 0 }, ...(slice ? [slice] : []), ...others], leftOut: [] };
  }

  const changed = rest.flatMap((tier) => {
    const path = concerned.tiers.get(tier.name);
    const title = `${tier.name} (${path} changed)`;
    return path === undefined ? [] : [measure(title, [`--tier=${tier.name}`], filesOf(tier))];
  });
  const planned = [...daily.files, ...changed.flatMap(({ files }) => files)];
  const own = concerned.files.filter((path) => !planned.includes(path));
  const ofSlice = slice.files.filter((path) => ![...planned, ...own].includes(path));
  const parts = [...changed, select('changed test files', own), select(slice.title, ofSlice)];
  return {
    parts: [{ ...daily, seconds: 0 }, ...parts.filter(({ files }) => files.length > 0)],
    leftOut: others.map(({ title }) => title),
  };
}

function listFiles(tiers: readonly Tier[]): string[] {
  return tiers.flatMap(filesOf);
}
