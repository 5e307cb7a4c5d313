import { parseArgs } from 'node:util';
import { benchGateway } from './gateway/bench.ts';
import { writePerformancePage } from './performance-page.ts';
import { benchProviders } from './providers/bench.ts';
import { createStackBenches } from './stack/benches.ts';
import { describeMachine } from './support/machine.ts';
import { printMachine, printUses } from './support/print.ts';
import { type Measured, type Results, readResults, writeResults } from './support/results.ts';
import { printTable, type Row } from './table.ts';

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    quick: { type: 'boolean', default: false },
    full: { type: 'boolean', default: false },
  },
});
const { quick, full } = values;
const stack = createStackBenches(quick ? 'quick' : full ? 'full' : 'usual');

/** The benchmarks. Those with a floor measure it in the same run. */
const BENCHES: Record<string, () => Promise<Measured>> = {
  ...stack.run,
  gateway: async () => ({ rows: await benchGateway(quick), uses: [] }),
  providers: async () => ({ rows: await benchProviders(quick), uses: [] }),
};
const selected = values.only ?? Object.keys(BENCHES);
const unknown = selected.filter((name) => !(name in BENCHES));
if (unknown.length > 0) {
  throw new Error(`no bench is called ${unknown}; there are: ${Object.keys(BENCHES).join(', ')}`);
}

const parts: Record<string, Row[]> = {};
for (const name of ['SIGINT', 'SIGTERM'] as const) {
  process.on(name, () => void stack.close().finally(() => process.exit(1)));
}
try {
  const machine = await describeMachine(await stack.fixture());
  printMachine(machine);
  for (const [bench, run] of Object.entries(BENCHES)) {
    if (!selected.includes(bench)) continue;
    process.stdout.write(`\n${bench}${quick ? ' (quick)' : ''}\n`);
    const { rows, uses } = await run();
    parts[bench] = rows;
    printTable(rows);
    printUses(uses);
  }
  // A quick run shows that the benchmarks work; its figures spread too much to be kept.
  if (!quick) await save({ machine, parts });
} finally {
  await stack.close();
}

/** Writes the results and the page. Parts that were not run keep their rows, if they are of the same machine. */
async function save(results: Results): Promise<void> {
  const { machine, parts: kept } = await readResults();
  const isSame = machine.cpu === results.machine.cpu && machine.cores === results.machine.cores;
  const all = { ...results, parts: { ...(isSame && kept), ...results.parts } };
  await writeResults(all);
  // The rounded ones, from which anybody can make the page again.
  await writePerformancePage(await readResults());
}
