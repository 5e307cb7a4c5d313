/** One measured value, and the goal that it is held to. */
export interface Row {
  what: string;
  value: number;
  unit?: string;
  goal?: { atLeast: number } | { atMost: number };
}

/** Prints the rows under each other; true when every goal is met. */
export function printTable(rows: readonly Row[]): boolean {
  const width = Math.max(...rows.map(({ what }) => what.length));
  for (const row of rows) {
    const value = `${row.value.toFixed(row.value < 10 ? 2 : 1)} ${row.unit ?? ''}`;
    process.stdout.write(`  ${row.what.padEnd(width)}  ${value.padStart(14)}  ${verdict(row)}\n`);
  }
  return rows.every(isMet);
}

function isMet({ value, goal }: Row): boolean {
  if (goal === undefined) return true;
  return 'atLeast' in goal ? value >= goal.atLeast : value <= goal.atMost;
}

function verdict(row: Row): string {
  if (row.goal === undefined) return '';
  const goal = 'atLeast' in row.goal ? `goal ≥ ${row.goal.atLeast}` : `goal ≤ ${row.goal.atMost}`;
  return `${goal}  ${isMet(row) ? 'met' : 'MISSED'}`;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
