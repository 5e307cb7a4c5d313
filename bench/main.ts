import { parseArgs } from 'node:util';
import { benchGateway } from './gateway/bench.ts';
import { benchProviders } from './providers/bench.ts';
import { createStackBenches } from './stack/benches.ts';
import { benchObservability } from './stack/observability.ts';
import { describeMachine } from './support/machine.ts';
import { printMachine, printUses } from './support/print.ts';
import { type Result, writeResults } from './support/results.ts';
import { printTable } from './table.ts';

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    quick: { type: 'boolean', default: false },
    full: { type: 'boolean', default: false },
    before: { type: 'string' },
  },
});
const { quick, full, before } = values;
const stack = createStackBenches(quick ? 'quick' : full ? 'full' : 'usual');

/** The benchmarks. Each returns rows of ratios to a floor that is measured in the same run. */
const BENCHES: Record<string, () => Promise<Pick<Result, 'rows' | 'uses'>>> = {
  ...stack.run,
  gateway: async () => ({ rows: await benchGateway(quick), uses: [] }),
  providers: async () => ({ rows: await benchProviders(quick), uses: [] }),
  ...(before !== undefined && {
    observability: async () => ({ rows: await benchObservability(before, quick), uses: [] }),
  }),
};
const selected = values.only ?? Object.keys(BENCHES);
const unknown = selected.filter((name) => !(name in BENCHES));
if (unknown.length > 0) {
  throw new Error(`no bench is called ${unknown}; there are: ${Object.keys(BENCHES).join(', ')}`);
}

let areGoalsMet = true;
const results: Result[] = [];
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
} finally {
  await stack.close();
}
process.exitCode = areGoalsMet ? 0 : 1;
