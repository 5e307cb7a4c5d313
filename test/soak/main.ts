// Runs the system under load and faults that a seed decides, and checks every guarantee:
//
//   npm run soak -- --minutes 3 --seed 1
//
// or reads a finished run again, and writes its report anew:
//
//   npm run soak -- --report .carillon/soak/1-0123456789ab.history.json

import { createHash } from 'node:crypto';
import { createWriteStream, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { buildPlan, FAULTS, type FaultName } from './plan.ts';
import { printReport, readRun, saveHistory } from './report.ts';
import { DEVICE_COUNTS, MQTT_ONLY, run, TOPICS } from './run.ts';
import { openSystem } from './system.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '3' },
    seed: { type: 'string', default: String(Date.now() % 100_000) },
    rate: { type: 'string', default: '20' },
    faults: { type: 'string' },
    report: { type: 'string' },
    reports: {
      type: 'string',
      default: fileURLToPath(new URL('../../.carillon/soak', import.meta.url)),
    },
  },
});
const violations = values.report === undefined ? await soak() : printReport(readRun(values.report));
process.exitCode = violations === 0 ? 0 : 1;

/** Runs the plan of the seed; returns the number of violations. */
async function soak(): Promise<number> {
  const seed = Number(values.seed);
  const plan = buildPlan({
    ...{ seed, minutes: Number(values.minutes), pushesPerSecond: Number(values.rate) },
    ...{ devices: DEVICE_COUNTS, mqttOnly: MQTT_ONLY, topics: TOPICS },
    ...(values.faults !== undefined && { faults: parseFaults(values.faults) }),
  });
  const digest = createHash('sha256').update(JSON.stringify(plan)).digest('hex').slice(0, 12);
  process.stdout.write(`seed ${seed}, plan ${digest}: ${plan.pushes.length} pushes\n`);
  for (const { atMs, fault, index, durationMs } of plan.faults)
    process.stdout.write(`  ${atMs / 1_000} s: ${fault} ${index}, ${durationMs} ms\n`);

  mkdirSync(values.reports, { recursive: true });
  const base = join(values.reports, `${seed}-${digest}`);
  const logFile = createWriteStream(`${base}.log.jsonl`);
  const system = await openSystem();
  try {
    const history = await run(system, plan, (line) => {
      logFile.write(`${JSON.stringify(line)}\n`);
    });
    saveHistory(base, history);
    return printReport({ base, history });
  } finally {
    logFile.end();
    await system.close();
  }
}

function parseFaults(list: string): [FaultName, ...FaultName[]] {
  const names = list.split(',');
  const known = FAULTS.filter((name) => names.includes(name));
  const [first, ...others] = known;
  if (first === undefined || known.length !== names.length)
    throw new Error(`the faults are: ${FAULTS.join(', ')}`);
  return [first, ...others];
}
