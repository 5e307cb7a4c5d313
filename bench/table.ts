/** What a value is held to. */
export type Goal = { atLeast: number } | { atMost: number };

/** Some rounds of a measurement. */
export interface Spread {
  median: number;
  min: number;
  max: number;
  unit: string;
}

/** One measured value, and the goal that it is held to. */
export interface Row {
  what: string;
  value: number;
  unit?: string;
  goal?: Goal;
  /** What the value is the ratio of: the raw limit, and ours. */
  floor?: Spread;
  ours?: Spread;
}

/** Prints the rows under each other; true when every goal is met. */
export function printTable(rows: readonly Row[]): boolean {
  const lines = rows.map((row) => [
    row.what,
    spreadText('floor', row.floor),
    spreadText('ours', row.ours),
    `${number(row.value)} ${row.unit ?? ''}`.trim(),
    verdict(row),
  ]);
  const widths = [0, 1, 2, 3].map((at) => Math.max(...lines.map((line) => line[at]?.length ?? 0)));
  for (const [what = '', floor = '', ours = '', value = '', end = ''] of lines) {
    const [first = 0, second = 0, third = 0, fourth = 0] = widths;
    const middle = second + third > 0 ? `${floor.padEnd(second)}  ${ours.padEnd(third)}  ` : '';
    process.stdout.write(`  ${what.padEnd(first)}  ${middle}${value.padStart(fourth)}  ${end}\n`);
  }
  return rows.every(isMet);
}

/** Whether a row has no goal or keeps it. */
function isMet({ value, goal }: Row): boolean {
  if (goal === undefined) return true;
  return 'atLeast' in goal ? value >= goal.atLeast : value <= goal.atMost;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function verdict(row: Row): string {
  if (row.goal === undefined) return '';
  const goal = 'atLeast' in row.goal ? `goal ≥ ${row.goal.atLeast}` : `goal ≤ ${row.goal.atMost}`;
  return `${goal}  ${isMet(row) ? 'met' : 'MISSED'}`;
}

function spreadText(name: string, values: Spread | undefined): string {
  if (values === undefined) return '';
  const { median, min, max, unit } = values;
  return `${name} ${number(median)} ${unit} (${number(min)}–${number(max)})`;
}

function number(value: number): string {
  if (Math.abs(value) >= 1_000) return Math.round(value).toLocaleString('en');
  return value.toFixed(Math.abs(value) < 10 ? 2 : 1);
}
