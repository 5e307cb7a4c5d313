import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { freePort } from '../../packages/presence/test/start-server.ts';
import { withStore } from '../support/api/tenants.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import { SERVICES, startService } from '../support/operators/service-process.ts';
import { startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const HOOK = fileURLToPath(new URL('../support/traces/list-modules.mjs', import.meta.url));
/** The metrics library imports the interfaces, which contain no tracer and no exporter. */
const INTERFACES = '/node_modules/@opentelemetry/api/';

let folder: string;
let options: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'carillon-modules-'));
  const hook = join(folder, 'list-modules.mjs');
  copyFileSync(HOOK, hook);
  options = `--import ${hook}`;
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Lists the modules of OpenTelemetry that a process has loaded, without the interfaces. */
function loadedModules(pid: number): string[] {
  const path = join(folder, `modules-${pid}.txt`);
  if (!existsSync(path)) throw new Error(`process ${pid} was not watched`);
  const urls = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  return urls.filter((url) => !url.includes(INTERFACES));
}

test('no process loads OpenTelemetry, and nothing is added to a push', async () => {
  const stack = await startStack({ env: { NODE_OPTIONS: options } });
  try {
    const device = await newMqttDevice(stack.dev);
    await device.connect();
    const push = await send(stack, device.token);
    await device.waitFor(1);
    await device.disconnect();
    const stored = await withStore(stack, ({ pushes }) => pushes.inspect(push.id));
    expect(stored?._id).toBe(push.id);
    expect(stored).not.toHaveProperty('trace');
    for (const service of SERVICES) expect(loadedModules(stack.pidOf(service))).toEqual([]);
  } finally {
    await stack.stop();
  }
});

test('a process with a receiver loads it', async () => {
  const api = await startService('api', {
    NODE_OPTIONS: options,
    MONGODB_URI: `mongodb://127.0.0.1:${await freePort()}/carillon`,
    REDIS_URL: `redis://127.0.0.1:${await freePort()}`,
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318',
  });
  try {
    await until(async () => (await api.probe('/livez')).status === 200, { timeoutMs: 30_000 });
    const loaded = loadedModules(api.pid);
    expect(loaded).toContainEqual(expect.stringContaining('/@opentelemetry/sdk-trace/'));
    expect(loaded).toContainEqual(expect.stringContaining('exporter-trace-otlp-http'));
  } finally {
    api.kill('SIGKILL');
    await api.exited;
  }
});
