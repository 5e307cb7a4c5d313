import { type Goal, median, type Row, type Spread } from '../table.ts';

/** The value below which a share (0–1) of the values lies. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Median, least and greatest of some rounds. */
export function spread(values: readonly number[], unit: string): Spread {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values), unit };
}

/** One measurement of the floor and one of ours, taken right after each other. */
export interface Round {
  floor: number;
  ours: number;
}

/** Takes turns: what the machine does else then hits both. */
export async function inTurns(
  rounds: number,
  floor: () => Promise<number>,
  ours: () => Promise<number>,
): Promise<Round[]> {
  const taken: Round[] = [];
  for (let n = 0; n < rounds; n += 1) taken.push({ floor: await floor(), ours: await ours() });
  return taken;
}

/** A row whose value is the median of each round's own ratio. */
export function ratioRow(
  what: string,
  rounds: readonly Round[],
  { unit, goal, ratio }: { unit: string; goal?: Goal; ratio: 'ours/floor' | 'floor/ours' },
): Row {
  const ratioOf = ({ floor, ours }: Round) =>
    ratio === 'ours/floor' ? ours / floor : floor / ours;
  return {
    what,
    value: median(rounds.map(ratioOf)),
    unit: '×',
    floor: spread(
      rounds.map((round) => round.floor),
      unit,
    ),
    ours: spread(
      rounds.map((round) => round.ours),
      unit,
    ),
    ...(goal && { goal }),
  };
}
