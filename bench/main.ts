import { parseArgs } from 'node:util';
import { benchExport } from './export/bench.ts';
import { benchFailpoints } from './failpoints.ts';
import { benchGateway } from './gateway/bench.ts';
import { findRegressions, keepResults } from './kept-results.ts';
import { benchObservability } from './observability/bench.ts';
import { benchProviders } from './providers/bench.ts';
import { createStackBenches } from './stack/benches.ts';
import { describeMachine } from './support/machine.ts';
import { printMachine, printUses } from './support/print.ts';
import { type Result, writeResults } from './support/results.ts';
import { printTable } from './table.ts';

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    quick: { type: 'boolean', default: false },
    full: { type: 'boolean', default: false },
    check: { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
  },
});
const { quick, full, check, keep } = values;
const stack = createStackBenches(quick ? 'quick' : full ? 'full' : 'usual');

/** The benchmarks. Each returns rows of ratios to a floor that is measured in the same run. */
const BENCHES: Record<string, () => Promise<Pick<Result, 'rows' | 'uses'>>> = {
  ...stack.run,
  gateway: async () => ({ rows: await benchGateway(quick), uses: [] }),
  providers: async () => ({ rows: await benchProviders(quick), uses: [] }),
  export: async () => ({ rows: await benchExport(quick), uses: [] }),
  failpoints: async () => ({ rows: benchFailpoints(), uses: [] }),
  observability: async () => ({ rows: await benchObservability(quick), uses: [] }),
};
const selected = values.only ?? Object.keys(BENCHES);
const unknown = selected.filter((name) => !(name in BENCHES));
if (unknown.length > 0) {
  throw new Error(`no bench is called ${unknown}; there are: ${Object.keys(BENCHES).join(', ')}`);
}

let areGoalsMet = true;
const results: Result[] = [];
const regressions: string[] = [];
for (const name of ['SIGINT', 'SIGTERM'] as const) {
  process.on(name, () => void stack.close().finally(() => process.exit(1)));
}
try {
  const machine = selected.some((name) => name in stack.run)
    ? await describeMachine(await stack.fixture())
    : undefined;
  printMachine(machine);
  for (const [bench, run] of Object.entries(BENCHES)) {
    if (!selected.includes(bench)) continue;
    process.stdout.write(`\n${bench}${quick ? ' (quick)' : ''}\n`);
    const startedAt = performance.now();
    const { rows, uses } = await run();
    results.push({ bench, seconds: (performance.now() - startedAt) / 1_000, rows, uses });
    areGoalsMet = printTable(rows) && areGoalsMet;
    printUses(uses);
  }
  process.stdout.write(`\n${await writeResults(machine, results)}\n`);
  const rows = results.flatMap((result) => result.rows);
  if (check) regressions.push(...findRegressions(rows));
  if (keep) keepResults(rows);
} finally {
  await stack.close();
}
for (const line of regressions) process.stderr.write(`worse than kept: ${line}\n`);
// With --check only a regression fails: a missed goal is known.
process.exitCode = (check ? regressions.length === 0 : areGoalsMet) ? 0 : 1;
