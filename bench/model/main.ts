import { computeCapacity } from './capacity.ts';
import { checkModel, MAX_ERROR } from './check.ts';
import { fitCosts } from './costs.ts';
import { describeInputs, readInputs } from './inputs.ts';
import { findLimits } from './limits.ts';
import { measurePart } from './measure/measure.ts';
import { readMeasured } from './measured.ts';
import { updateModelPage } from './page.ts';
import {
  describeNextLimit,
  type Table,
  tabulateCheck,
  tabulateCosts,
  tabulateLimits,
  tabulateLoad,
  tabulateNetwork,
  tabulateServers,
  tabulateServices,
  toText,
} from './tables.ts';

const USAGE = `npm run bench:model -- --connected 10000000 --pushes 1000 --fan-out 100
npm run bench:model -- check                       compares the model with measured points that it was not fitted to
npm run bench:model -- measure <part>…             measures deliveries, links, storage or providers on this machine
npm run bench:model -- page                        writes the tables of docs/capacity-model.md

${describeInputs()}
`;

function print(...tables: Table[]): void {
  for (const table of tables) process.stdout.write(`${toText(table)}\n\n`);
}

function printCapacity(args: readonly string[]): void {
  const inputs = readInputs(args);
  const measured = readMeasured();
  const capacity = computeCapacity(inputs, fitCosts(measured), measured);
  const limits = findLimits(inputs, capacity, measured);
  print(
    tabulateLoad(capacity),
    tabulateServices(capacity),
    tabulateServers(capacity),
    tabulateNetwork(capacity),
  );
  print(tabulateLimits(limits));
  process.stdout.write(`${describeNextLimit(limits)}\n`);
}

/** @returns true if each point is predicted within the accepted error */
function printCheck(): boolean {
  const measured = readMeasured();
  const costs = fitCosts(measured);
  const points = checkModel(measured, costs);
  print(tabulateCosts(costs), tabulateCheck(points));
  return points.every(({ error }) => Math.abs(error) <= MAX_ERROR);
}

async function run([command, ...rest]: readonly string[]): Promise<boolean> {
  if (command === undefined || command === '--help') process.stdout.write(USAGE);
  else if (command === 'check') return printCheck();
  else if (command === 'page') updateModelPage();
  else if (command === 'measure') for (const part of rest) await measurePart(part);
  else printCapacity([command, ...rest]);
  return true;
}

try {
  process.exitCode = (await run(process.argv.slice(2))) ? 0 : 1;
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
