import { parseArgs } from 'node:util';
import { benchGateway } from './gateway/bench.ts';
import type { Row } from './table.ts';
import { printTable } from './table.ts';

/** Each prints a table of ratios against a raw limit that was measured in the same run. */
const BENCHES: Record<string, (isQuick: boolean) => Promise<Row[]>> = { gateway: benchGateway };

const { values } = parseArgs({
  options: { only: { type: 'string' }, quick: { type: 'boolean', default: false } },
});

let areMet = true;
for (const [name, bench] of Object.entries(BENCHES)) {
  if (values.only !== undefined && values.only !== name) continue;
  process.stdout.write(`\n${name}${values.quick ? ' (quick)' : ''}\n`);
  areMet = printTable(await bench(values.quick)) && areMet;
}
process.exitCode = areMet ? 0 : 1;
