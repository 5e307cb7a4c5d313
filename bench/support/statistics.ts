import { type Compared, median, type Row, type Spread } from '../table.ts';

/** Computes a quantile (0–1) of the values. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Computes median, minimum and maximum of the rounds. */
export function summarize(values: readonly number[], unit: string): Spread {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values), unit };
}

/** A measurement of the floor and one of Carillon, taken in direct succession. */
export interface Round {
  floor: number;
  ours: number;
}

/** Alternates both measurements, so that other load on the machine affects both. */
export async function measureAlternately(
  rounds: number,
  floor: () => Promise<number>,
  ours: () => Promise<number>,
): Promise<Round[]> {
  const measured: Round[] = [];
  for (let n = 0; n < rounds; n += 1) measured.push({ floor: await floor(), ours: await ours() });
  return measured;
}

/** Creates a row whose value is the median of the rounds' ratios. */
export function ratioRow(
  what: string,
  rounds: readonly Round[],
  { unit, ratio }: { unit: string; ratio: 'ours/floor' | 'floor/ours' },
): Row {
  const toRatio = ({ floor, ours }: Round) =>
    ratio === 'ours/floor' ? ours / floor : floor / ours;
  const ratios = rounds.map(toRatio);
  return {
    what,
    value: median(ratios),
    unit: '×',
    spread: { min: Math.min(...ratios), max: Math.max(...ratios) },
    floor: summarize(
      rounds.map((round) => round.floor),
      unit,
    ),
    ours: summarize(
      rounds.map((round) => round.ours),
      unit,
    ),
  };
}

/**
 * Creates a row whose value is the median of the rounds.
 *
 * @param floors the same cost of the floor in each round: later runs are compared by the ratio of both
 */
export function valueRow(
  what: string,
  values: readonly number[],
  { unit, floors }: { unit: string; floors?: readonly number[] },
): Row {
  const ours = summarize(values, unit);
  return {
    what,
    value: ours.median,
    unit,
    ours,
    spread: { min: ours.min, max: ours.max },
    ...(floors && { floor: summarize(floors, unit), compared: compareTo(floors, values) }),
  };
}

function compareTo(floors: readonly number[], values: readonly number[]): Compared {
  const ratios = values.map((value, round) => value / (floors[round] ?? Number.NaN));
  return { value: median(ratios), min: Math.min(...ratios), max: Math.max(...ratios) };
}
