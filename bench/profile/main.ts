import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openStackFixture } from '../support/fixture.ts';
import { freePort } from './free-port.ts';
import { hottest } from './hottest.ts';
import { type CpuProfile, connectInspector } from './inspector.ts';
import { startLoad } from './load.ts';
import { printHottest } from './print-hottest.ts';

const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway', 'sandbox'];
const SHOWN = 10;
/** The compiler and the caches are warm then. */
const WARM_UP_MS = 3_000;
const MOST_SECONDS = 300;
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const USAGE = `npm run profile -- <service> [--seconds 10] [--out <file>]
  service: ${SERVICES.join(', ')}`;

/**
 * Profiles the first process of a service in a stack of its own, under a mixed load of pushes: writes a
 * `.cpuprofile`, which Chrome's developer tools and VS Code open, and prints the hottest functions.
 */
async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { seconds: { type: 'string', default: '10' }, out: { type: 'string' } },
  });
  const [service = '', ...more] = positionals;
  const seconds = Number(values.seconds);
  const isTime = seconds > 0 && seconds <= MOST_SECONDS;
  if (!SERVICES.includes(service) || more.length > 0 || !isTime) {
    process.stderr.write(`${USAGE}\n`);
    return 2;
  }
  const time = new Date().toISOString().replaceAll(':', '-').slice(0, 19);
  const path = resolve(values.out ?? `${ROOT}/bench/results/${service}-${time}.cpuprofile`);
  const profile = await record(service, seconds * 1_000);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, JSON.stringify(profile));
  process.stdout.write(`${relative(process.cwd(), path)}\n`);
  printHottest(service, hottest(profile, ROOT), SHOWN);
  return 0;
}

async function record(service: string, durationMs: number): Promise<CpuProfile> {
  const port = await freePort();
  const scene = await openStackFixture(1, { CARILLON_INSPECT: `${service}:${port}` });
  const end = () => void scene.close().finally(() => process.exit(1));
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, end);
  try {
    const load = await startLoad(scene);
    try {
      await load.during(sleep(WARM_UP_MS));
      const inspector = await connectInspector(port);
      try {
        return await load.during(inspector.profile(durationMs));
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
