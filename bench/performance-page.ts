import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Results } from './support/results.ts';
import { formatNumber, type Row } from './table.ts';

const PAGE = fileURLToPath(new URL('../docs/performance.md', import.meta.url));
/** Units of counts. Times, memory and shares of a core depend on the machine, and are on the page as ratios alone. */
const COUNTED: readonly (string | undefined)[] = ['commands', 'rows', 'bytes'];

const INTRODUCTION = `<!-- Written by \`npm run bench\` from bench/results.json. -->

# Performance

What Carillon costs: as ratios to a *floor*, a minimal program that does only the unavoidable part of the same work, and as counts.
Floor and Carillon take turns in one run, so a slow machine affects both.

\`\`\`sh
npm start                                # once, to install everything; then Ctrl-C
npm run bench                            # all parts, about twenty minutes
npm run bench -- --only fan-out          # one part; may be given several times
npm run bench -- --only offline --full   # a larger run; --quick: a smaller one, which leaves this page as it is
\`\`\`

Each run prints all figures of its parts, saves them in \`bench/results.json\`, and writes ratios and counts to this page. \`gorush\`
is measured where the variable \`GORUSH\` names a gorush whose APNs client sends to the server in \`APNS_HOST\`.

- A value is the median of several rounds, with the lowest and the highest. A ratio (×) is against the floor, if its row names
  nothing else.
- Commands of a push leave out those of the idle stack. Under load they depend on how many pushes share a round trip.
- Differences below a tenth are noise. Compare two versions in turns, on a machine that does nothing else.

`;

/** Writes docs/performance.md. */
export async function writePerformancePage(results: Results): Promise<void> {
  await writeFile(PAGE, renderPerformancePage(results));
}

/** Returns docs/performance.md, of at most 150 lines. */
export function renderPerformancePage({ machine, parts }: Results): string {
  const { cpu, cores, memoryGb, system, node, mongodb, redis } = machine;
  const where = `The last run: ${cores} cores of ${cpu}, ${memoryGb} GB, ${system}; Node ${node}, MongoDB ${mongodb}, Redis ${redis}.`;
  const rows = Object.values(parts).flat().flatMap(toCells);
  const table = ['| measurement | result |', '|---|---|', ...rows.map((row) => `| ${row} |`)];
  return `${INTRODUCTION}${where}\n\n${table.join('\n')}\n`;
}

/** Returns the cells of a row; none for a time, and for the part of one process, which the run prints. */
function toCells({ what, value, unit, spread, compared }: Row): string[] {
  if (/: (of it|CPU of) /.test(what)) return [];
  if (compared !== undefined) return [`${what} | ${format(compared, '×')}`];
  if (unit !== '×' && !COUNTED.includes(unit)) return [];
  const isNamed = unit !== undefined && what.includes(unit);
  return [`${what} | ${format({ value, ...spread }, isNamed ? '' : unit)}`];
}

function format(
  { value, min, max }: { value: number; min?: number; max?: number },
  unit = '',
): string {
  const range =
    min === undefined || max === undefined ? '' : ` (${formatNumber(min)}–${formatNumber(max)})`;
  return `${[formatNumber(value), unit].join(' ').trim()}${range}`;
}
