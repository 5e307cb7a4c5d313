import { readFileSync, writeFileSync } from 'node:fs';
import { computeCapacity } from './capacity.ts';
import { checkModel } from './check.ts';
import { fitCosts } from './costs.ts';
import { readInputs } from './inputs.ts';
import { findLimits } from './limits.ts';
import { readMeasured, readOrigin } from './measured.ts';
import {
  tabulateCheck,
  tabulateCosts,
  tabulateLimits,
  tabulateLoad,
  tabulateNetwork,
  tabulateServers,
  tabulateServices,
  toMarkdown,
} from './tables.ts';

const PAGE = new URL('../../docs/capacity-model.md', import.meta.url);
const END = '<!-- end -->';

const SECTIONS: Record<string, () => string> = {
  '<!-- costs, by npm run bench:model -- page -->': () =>
    toMarkdown(tabulateCosts(fitCosts(readMeasured()))),
  '<!-- checked points, by npm run bench:model -- page -->': renderCheck,
  '<!-- ten million connected, by npm run bench:model -- page -->': renderExample,
};

/** The load that the page works out. */
const EXAMPLE = ['--connected', '10000000', '--pushes', '1000', '--fan-out', '100'];

/** Writes the tables into the page. */
export function updateModelPage(): void {
  writeFileSync(PAGE, renderModelPage(readFileSync(PAGE, 'utf8')));
}

/** Returns the text of the page with current tables. */
export function renderModelPage(page: string): string {
  let updated = page;
  for (const [begin, render] of Object.entries(SECTIONS)) {
    const from = updated.indexOf(begin);
    const to = updated.indexOf(END, from);
    if (from < 0 || to < 0) throw new Error(`the page has no ${begin}`);
    updated = `${updated.slice(0, from)}${begin}\n\n${render()}\n\n${updated.slice(to)}`;
  }
  return updated;
}

function renderCheck(): string {
  const measured = readMeasured();
  const { at, machine } = readOrigin('deliveries');
  const origin = `Measured at ${at.slice(0, 10)} on ${machine}; the costs are from the same runs.`;
  return `${toMarkdown(tabulateCheck(checkModel(measured, fitCosts(measured))))}\n\n${origin}`;
}

function renderExample(): string {
  const measured = readMeasured();
  const inputs = readInputs(EXAMPLE);
  const capacity = computeCapacity(inputs, fitCosts(measured), measured);
  const limits = findLimits(inputs, capacity, measured);
  const tables = [
    tabulateLoad(capacity),
    tabulateServices(capacity),
    tabulateServers(capacity),
    tabulateNetwork(capacity),
    tabulateLimits(limits),
  ];
  return tables.map(toMarkdown).join('\n\n');
}
