/** Median, minimum and maximum over several rounds. */
export interface Spread {
  median: number;
  min: number;
  max: number;
  unit: string;
}

/** A cost in units of the floor's, and the lowest and highest of the rounds. */
export interface Compared {
  value: number;
  min: number;
  max: number;
}

/** One measured value. */
export interface Row {
  what: string;
  value: number;
  unit?: string;
  /** Lowest and highest value of the rounds. */
  spread?: { min: number; max: number };
  /** The value in units of the floor's, which depends less on the machine. */
  compared?: Compared;
  /** Operands of the ratio: the floor, and Carillon's value. */
  floor?: Spread;
  ours?: Spread;
}

/** Prints the rows. */
export function printTable(rows: readonly Row[]): void {
  const lines = rows.map((row) => [
    row.what,
    formatSpread('floor', row.floor),
    formatSpread('ours', row.ours),
    `${formatNumber(row.value)} ${row.unit ?? ''}`.trim(),
  ]);
  const widths = [0, 1, 2, 3].map((column) =>
    Math.max(...lines.map((line) => line[column]?.length ?? 0)),
  );
  for (const [what = '', floor = '', ours = '', value = ''] of lines) {
    const [first = 0, second = 0, third = 0, fourth = 0] = widths;
    const middle = second + third > 0 ? `${floor.padEnd(second)}  ${ours.padEnd(third)}  ` : '';
    process.stdout.write(`  ${what.padEnd(first)}  ${middle}${value.padStart(fourth)}\n`);
  }
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function formatSpread(name: string, values: Spread | undefined): string {
  if (values === undefined) return '';
  const { median, min, max, unit } = values;
  return `${name} ${formatNumber(median)} ${unit} (${formatNumber(min)}–${formatNumber(max)})`;
}

export function formatNumber(value: number): string {
  if (Math.abs(value) >= 1_000) return Math.round(value).toLocaleString('en');
  return value.toFixed(Math.abs(value) < 10 ? 2 : 1);
}
