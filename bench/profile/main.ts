import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openStackFixture } from '../support/fixture.ts';
import { type StackCosts, startCostMeter } from '../support/stack-costs.ts';
import { freePort } from './free-port.ts';
import { hottest } from './hottest.ts';
import { type CpuProfile, connectInspector } from './inspector.ts';
import { startMixedLoad, startSinglePushes } from './load.ts';
import { printCpu, printHottest, printLatencies } from './print-hottest.ts';

const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway', 'sandbox'];
const SHOWN = 10;
/** The compiler and the caches are warm then; at a low rate that takes longer. */
const WARM_UP_SECONDS = 3;
const WARM_UP_AT_RATE_SECONDS = 10;
const MOST_SECONDS = 300;
const MOST_PER_SECOND = 10_000;
const MOST_GATEWAYS = 8;
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const USAGE = `npm run profile -- <service> [--seconds 10] [--warm-up <seconds>] [--rate <pushes a second>] [--gateways 1] [--out <file>]
  service: ${SERVICES.join(', ')}
  --warm-up: load before the profile, ${WARM_UP_SECONDS} s by default, or ${WARM_UP_AT_RATE_SECONDS} s with --rate
  --rate: single pushes to connected devices instead of the mixed load`;

/** Service and load to profile. */
interface Options {
  service: string;
  seconds: number;
  warmUpSeconds: number;
  /** Single pushes a second; undefined means a mixed load. */
  perSecond: number | undefined;
  gateways: number;
}

/**
 * Profiles the first process of a service in a stack of its own, under a load of pushes: writes a `.cpuprofile`, which
 * Chrome's developer tools and VS Code open, and prints the hottest functions and the CPU of every service.
 */
async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      seconds: { type: 'string', default: '10' },
      'warm-up': { type: 'string' },
      rate: { type: 'string' },
      gateways: { type: 'string', default: '1' },
      out: { type: 'string' },
    },
  });
  const [service = '', ...more] = positionals;
  const perSecond = values.rate === undefined ? undefined : Number(values.rate);
  const [seconds, gateways] = [Number(values.seconds), Number(values.gateways)];
  const defaultWarmUp = perSecond === undefined ? WARM_UP_SECONDS : WARM_UP_AT_RATE_SECONDS;
  const warmUpSeconds = Number(values['warm-up'] ?? defaultWarmUp);
  const areNumbersValid =
    isWithin(seconds, MOST_SECONDS) &&
    isWithin(warmUpSeconds, MOST_SECONDS) &&
    isWithin(perSecond ?? 1, MOST_PER_SECOND) &&
    isWithin(gateways, MOST_GATEWAYS);
  if (!SERVICES.includes(service) || more.length > 0 || !areNumbersValid) {
    process.stderr.write(`${USAGE}\n`);
    return 2;
  }
  const options = { service, seconds, warmUpSeconds, perSecond, gateways };
  const time = new Date().toISOString().replaceAll(':', '-').slice(0, 19);
  const path = resolve(values.out ?? `${ROOT}/bench/results/${service}-${time}.cpuprofile`);
  const { profile, costs, latenciesMs } = await record(options);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, JSON.stringify(profile));
  process.stdout.write(`${relative(process.cwd(), path)}\n`);
  if (latenciesMs.length > 0) printLatencies(latenciesMs, seconds);
  printCpu(costs);
  printHottest(service, hottest(profile, ROOT), SHOWN);
  return 0;
}

function isWithin(value: number, most: number): boolean {
  return value > 0 && value <= most;
}

interface Recording {
  profile: CpuProfile;
  costs: StackCosts;
  latenciesMs: readonly number[];
}

async function record(options: Options): Promise<Recording> {
  const { service, seconds, warmUpSeconds, perSecond, gateways } = options;
  const port = await freePort();
  const scene = await openStackFixture(gateways, { CARILLON_INSPECT: `${service}:${port}` });
  const end = () => void scene.close().finally(() => process.exit(1));
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, end);
  try {
    const load = await (perSecond === undefined
      ? startMixedLoad(scene)
      : startSinglePushes(scene, perSecond));
    try {
      await load.during(sleep(warmUpSeconds * 1_000));
      const inspector = await connectInspector(port);
      try {
        const readCosts = await startCostMeter(scene);
        const profile = await load.during(inspector.profile(seconds * 1_000));
        return { profile, costs: await readCosts(), latenciesMs: load.latenciesMs() };
      } finally {
        // A process with a debugger attached would wait for it at its end.
        inspector.close();
      }
    } finally {
      load.close();
    }
  } finally {
    await scene.close();
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.off(name, end);
  }
}

process.exitCode = await main();
