// Runs the system under load and faults that a seed decides, and checks every guarantee:
//
//   npm run soak -- --minutes 3 --seed 1

import { createHash } from 'node:crypto';
import { createWriteStream, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { check, countDuplicates } from './checker.ts';
import type { History } from './history.ts';
import { buildPlan, FAULTS, type FaultName } from './plan.ts';
import { type AppliedFault, DEVICES, run, TOPICS } from './run.ts';
import { openSystem } from './system.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '3' },
    seed: { type: 'string', default: String(Date.now() % 100_000) },
    rate: { type: 'string', default: '20' },
    faults: { type: 'string' },
    reports: {
      type: 'string',
      default: fileURLToPath(new URL('../../.carillon/soak', import.meta.url)),
    },
  },
});
const seed = Number(values.seed);
const plan = buildPlan({
  ...{ seed, minutes: Number(values.minutes), pushesPerSecond: Number(values.rate) },
  devices: DEVICES.connected + 3 * DEVICES.ofProvider,
  topics: TOPICS,
  ...(values.faults !== undefined && { faults: parseFaults(values.faults) }),
});
const digest = createHash('sha256').update(JSON.stringify(plan)).digest('hex').slice(0, 12);
process.stdout.write(`seed ${seed}, plan ${digest}: ${plan.pushes.length} pushes\n`);
for (const { atMs, fault, index, durationMs } of plan.faults)
  process.stdout.write(`  ${atMs / 1_000} s: ${fault} ${index}, ${durationMs} ms\n`);

mkdirSync(values.reports, { recursive: true });
const pathOf = (kind: string) => join(values.reports, `${seed}-${digest}.${kind}`);
const logFile = createWriteStream(pathOf('log.jsonl'));
const system = await openSystem();
try {
  const { history, faults } = await run(system, plan, (line) => {
    logFile.write(`${JSON.stringify(line)}\n`);
  });
  report(history, faults);
} finally {
  logFile.end();
  await system.close();
}

function parseFaults(list: string): [FaultName, ...FaultName[]] {
  const names = list.split(',');
  const known = FAULTS.filter((name) => names.includes(name));
  const [first, ...others] = known;
  if (first === undefined || known.length !== names.length)
    throw new Error(`the faults are: ${FAULTS.join(', ')}`);
  return [first, ...others];
}

function report(history: History, faults: readonly AppliedFault[]): void {
  const violations = check(history);
  const accepted = history.pushes.filter(({ tries }) => tries.some(({ end }) => end === 'ok'));
  const ends: Record<string, number> = {};
  for (const { counts } of Object.values(history.ends))
    for (const [name, count] of Object.entries(counts)) ends[name] = (ends[name] ?? 0) + count;
  const summary = {
    ...{ seed, plan: digest, minutes: Number(values.minutes), faults },
    pushes: history.pushes.length,
    accepted: accepted.length,
    unknownTries: history.pushes
      .flatMap(({ tries }) => tries)
      .filter((one) => one.end === 'unknown').length,
    recipients: accepted.reduce((sum, { audience }) => sum + audience.length, 0),
    ends,
    lost: violations.filter(({ invariant }) => invariant === 'nothing is lost').length,
    duplicates: countDuplicates(history),
    observerLagMs: Math.round(history.observerLagMs),
    left: history.left,
    violations,
  };
  writeFileSync(pathOf('report.json'), `${JSON.stringify(summary, null, 2)}\n`);
  writeFileSync(pathOf('history.json'), JSON.stringify(history));
  const { faults: _, violations: found, ...figures } = summary;
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
  for (const { invariant, detail } of found.slice(0, 50))
    process.stdout.write(`VIOLATION ${invariant}: ${detail}\n`);
  process.stdout.write(`${found.length} violations; ${pathOf('report.json')}\n`);
  process.exitCode = found.length === 0 ? 0 : 1;
}
