// Sends random requests to every endpoint of the OpenAPI document, and random packets to the gateway, of a stack of its own:
//
//   npm run fuzz -- --per-route 1000 --mqtt 20000 --seed 1
//   npm run fuzz -- --per-route 0 --console 1000        to the routes of the console that work without a session
//   npm run fuzz -- --per-route 1000 --routes /export   only to endpoints whose path begins with this

import { parseArgs } from 'node:util';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { findTraces } from './find-traces.ts';
import { fuzzApi } from './fuzz-api.ts';
import { fuzzConsole } from './fuzz-console.ts';
import { fuzzMqtt } from './fuzz-mqtt.ts';
import { createFuzzTarget } from './fuzz-target.ts';
import { watchStack } from './watch-stack.ts';

const { values } = parseArgs({
  options: {
    'per-route': { type: 'string', default: '1000' },
    routes: { type: 'string', default: '' },
    mqtt: { type: 'string', default: '0' },
    console: { type: 'string', default: '0' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
  },
});
const seed = Number(values.seed);
const perRoute = Number(values['per-route']);
const streams = Number(values.mqtt);
const perConsoleRoute = Number(values.console);

print(`seed ${seed}`);
const fixture = await openProviderFixture(
  perConsoleRoute > 0 ? { dashboards: 1, env: { TRUST_PROXY: '1' } } : {},
);
try {
  const violations = [
    ...(perRoute > 0 ? await runApi(fixture) : []),
    ...(streams > 0 ? await runMqtt(fixture) : []),
    ...(perConsoleRoute > 0 ? await runConsole(fixture) : []),
  ];
  for (const violation of violations) print(`VIOLATION ${violation}`);
  print(`${violations.length} violations, seed ${seed}`);
  process.exitCode = violations.length === 0 ? 0 : 1;
} finally {
  await fixture.close();
}

async function runApi({ stack }: ProviderFixture): Promise<string[]> {
  const target = await createFuzzTarget(fixture);
  try {
    const before = await target.readVictim();
    const watch = watchStack(stack, target.unloggable);
    const report = await fuzzApi(target, { perRoute, seed, routes: values.routes, log: print });
    const { requests, statuses, violations } = report;
    print(
      `${requests} requests: ${JSON.stringify(statuses)}; MB: ${JSON.stringify(watch.readMemory())}`,
    );
    const after = await target.readVictim();
    const changed = Object.keys(before).filter((path) => before[path] !== after[path]);
    return [
      ...violations,
      ...watch.findViolations(),
      ...(await findTraces(stack.dev, target, report)),
      ...changed.map((path) => `${path} of a tenant whose key no request had has changed`),
    ];
  } finally {
    target.close();
  }
}

async function runMqtt({ stack }: ProviderFixture): Promise<string[]> {
  const tenant = await fixture.tenant();
  const watch = watchStack(stack, [tenant.apiKey]);
  const { received, violations, secrets } = await fuzzMqtt(tenant, { streams, seed });
  print(
    `${streams} streams, ${received} pushes received meanwhile; MB: ${JSON.stringify(watch.readMemory())}`,
  );
  return [...violations, ...watch.findViolations(secrets)];
}

async function runConsole({ stack }: ProviderFixture): Promise<string[]> {
  const watch = watchStack(stack, []);
  const { statuses, violations } = await fuzzConsole(stack.dev.console ?? '', {
    ...{ perRoute: perConsoleRoute, seed },
  });
  print(`console: ${JSON.stringify(statuses)}; MB: ${JSON.stringify(watch.readMemory())}`);
  return [...violations, ...watch.findViolations()];
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
