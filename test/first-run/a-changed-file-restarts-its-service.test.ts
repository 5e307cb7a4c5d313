import { readdirSync, statSync, utimesSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { send } from '../support/end-to-end/pushes.ts';
import {
  createTestHome,
  type NpmStart,
  ROOT,
  type TestHome,
} from '../support/first-run/test-home.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { callApi } from '../support/stack/call-api.ts';
import { type Dev, findProcess, readDev } from '../support/stack/dev-file.ts';
import { until } from '../support/until.ts';

const INSPECTOR_OFFSET = 12;
const SERVICES = [
  ...['sandbox', 'dashboard', 'api', 'delivery-worker', 'scheduler', 'device-gateway'],
];

let setup: TestHome;
let run: NpmStart;
let dev: Dev;
let device: MqttDevice;
beforeAll(async () => {
  setup = await createTestHome({ deliveryWorkers: 2, dashboards: 1 });
  run = setup.start({ CARILLON_INSPECT: 'api' }, 'dev');
  dev = await run.ready();
  device = await newMqttDevice(dev);
  await device.connect();
});
afterAll(async () => {
  await device?.disconnect();
  run.signal('SIGTERM');
  expect(await run.exit()).toBe(0);
  await setup.remove();
});

test('a file of a service restarts the processes of that service only, without a lost push', async () => {
  const before = pids();
  touch('services/delivery-worker/src/main.ts');
  const { id, payload } = await sendOne();
  await untilRestarted(before, ['delivery-worker 0', 'delivery-worker 1']);
  await until(() => device.arrivals.some((arrival) => arrival.payload === payload));
  expect(id).toMatch(/^[0-9a-f]{24}$/);
  expect(run.stdout()).toContain('main.ts changed: restarting delivery-worker\n');
  // It ended by itself after its SIGTERM, and not as one that has failed.
  expect(run.stdout()).not.toMatch(/delivery-worker.* ended/);
});

test('a request during a restart of the API is served by the next process', async () => {
  const before = pids();
  touch('services/api/src/main.ts');
  await until(() => run.stdout().includes('restarting api\n'));
  const { payload } = await sendOne();
  await untilRestarted(before, ['api 0']);
  await until(() => device.arrivals.some((arrival) => arrival.payload === payload));
});

test('a file of a package restarts the services that depend on it, and no other', async () => {
  const before = pids();
  touch('packages/queue/src');
  await untilRestarted(
    before,
    Object.keys(before).filter((name) => !name.startsWith('sandbox')),
  );
});

test('a process that is killed is restarted as without the reload', async () => {
  const before = pids();
  process.kill(before['scheduler 0'] ?? 0, 'SIGKILL');
  await untilRestarted(before, ['scheduler 0']);
  expect(run.stdout()).toMatch(/scheduler ended .*SIGKILL/);
});

test('after a restart of its process the inspector responds, on the loopback address only', async () => {
  const port = Number(setup.env.CARILLON_PORT_BASE) + INSPECTOR_OFFSET;
  expect(run.stdout()).toContain(`api at 127.0.0.1:${port}`);
  const version = await (await fetch(`http://127.0.0.1:${port}/json/version`)).json();
  expect(version).toMatchObject({ Browser: expect.stringContaining('node.js/v24') });
  const others = Object.values(networkInterfaces()).flatMap((some = []) =>
    some.filter(({ address, internal }) => !internal && !address.startsWith('fe80')),
  );
  for (const { address, family } of [...others, { address: '127.0.0.2', family: 'IPv4' }]) {
    const host = family === 'IPv6' ? `[${address}]` : address;
    await expect(fetch(`http://${host}:${port}/json/version`)).rejects.toThrow('fetch failed');
  }
});

/** As an editor's save does, but for the content. A folder means the first file in it. */
function touch(path: string): void {
  const at = join(ROOT, path);
  const file = statSync(at).isDirectory() ? join(at, readdirSync(at)[0] ?? '') : at;
  utimesSync(file, new Date(), new Date());
}

function pids(): Record<string, number> {
  const services = (readDev(setup.home)?.processes ?? []).filter(({ ops }) => ops !== undefined);
  const found = services.map(({ service, index, pid }) => [`${service} ${index}`, pid]);
  expect(new Set(services.map(({ service }) => service))).toEqual(new Set(SERVICES));
  return Object.fromEntries(found);
}

/** Waits until these have new processes that are ready, and sees that all others have their old ones. */
async function untilRestarted(before: Record<string, number>, names: string[]): Promise<void> {
  const isNew = async (name: string) => {
    const [service = '', index] = name.split(' ');
    const { pid, ops } = findProcess(readDev(setup.home), service, Number(index));
    return pid !== before[name] && (await fetch(`${ops}/readyz`)).ok;
  };
  const all = async () => (await Promise.all(names.map(isNew))).every(Boolean);
  await until(all, { what: `a restart of ${names}` });
  const after = pids();
  const changed = Object.keys(after).filter((name) => after[name] !== before[name]);
  expect(changed.sort()).toEqual([...names].sort());
}

function sendOne() {
  return send({ api: (method, path, body) => callApi(dev, method, path, body) }, device.token);
}
