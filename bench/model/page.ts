import { readFileSync, writeFileSync } from 'node:fs';
import { computeCapacity } from './capacity.ts';
import { checkModel, compareOverload } from './check.ts';
import { fitCosts } from './costs.ts';
import { readInputs } from './inputs.ts';
import { findLimits } from './limits.ts';
import { readMeasured, readOrigin } from './measured.ts';
import {
  describeNextLimit,
  tabulateCheck,
  tabulateCosts,
  tabulateLimits,
  tabulateLoad,
  tabulateNetwork,
  tabulateServers,
  tabulateServices,
  tabulateVariant,
  toMarkdown,
  VARIANT_HEAD,
} from './tables.ts';

const PAGE = new URL('../../docs/capacity-model.md', import.meta.url);
const END = '<!-- end -->';

const SECTIONS: Record<string, () => string> = {
  '<!-- overload, by npm run bench:model -- page -->': () => {
    const measured = readMeasured();
    return toMarkdown(tabulateCheck(compareOverload(measured, fitCosts(measured))));
  },
  '<!-- costs, by npm run bench:model -- page -->': () =>
    toMarkdown(tabulateCosts(fitCosts(readMeasured()))),
  '<!-- checked points, by npm run bench:model -- page -->': renderCheck,
  '<!-- ten million connected, by npm run bench:model -- page -->': renderExample,
  '<!-- variants, by npm run bench:model -- page -->': renderVariants,
};

/** The load that the page computes as an example. */
const EXAMPLE = ['--connected', '10000000', '--pushes', '1000', '--fan-out', '100'];

/** Changes of the example that the page compares. An option that is given twice has its last value. */
const VARIANTS: Record<string, string[]> = {
  none: [],
  'twice the connections of a gateway: `--links-per-gateway 24000`': [
    '--links-per-gateway',
    '24000',
  ],
  'a tenth of the pushes, with ten times the recipients': ['--pushes', '100', '--fan-out', '1000'],
  'the same, a third of the recipients offline: `--away 0.33`': [
    '--pushes',
    '100',
    '--fan-out',
    '1000',
    '--away',
    '0.33',
  ],
  'all pushes to one device: 100,000 a second': ['--pushes', '100000', '--fan-out', '1'],
};

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

function renderVariants(): string {
  const measured = readMeasured();
  const costs = fitCosts(measured);
  const rows = Object.entries(VARIANTS).map(([change, args]) => {
    const inputs = readInputs([...EXAMPLE, ...args]);
    const capacity = computeCapacity(inputs, costs, measured);
    return tabulateVariant(change, capacity, findLimits(inputs, capacity, measured));
  });
  return toMarkdown([VARIANT_HEAD, ...rows]);
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
  return [...tables.map(toMarkdown), describeNextLimit(limits)].join('\n\n');
}
