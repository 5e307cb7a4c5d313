import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
import { SERVICES, type ServiceName, startService } from '../support/operators/service-process.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

const HOOK = fileURLToPath(new URL('../support/traces/list-modules.mjs', import.meta.url));
/** The metrics library imports the interfaces, which contain no tracer and no exporter. */
const INTERFACES = '/node_modules/@opentelemetry/api/';

const folder = createTemporaryFolder();
let servers: DataServers;
let options: string;
beforeAll(async () => {
  servers = await startDataServers();
  const hook = join(folder, 'list-modules.mjs');
  copyFileSync(HOOK, hook);
  options = `--import ${hook}`;
});
afterAll(() => servers?.stop());

/** Lists the modules of OpenTelemetry that a process has loaded, without the interfaces. */
function loadedModules(pid: number): string[] {
  const path = join(folder, `modules-${pid}.txt`);
  if (!existsSync(path)) throw new Error(`process ${pid} was not watched`);
  const urls = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  return urls.filter((url) => !url.includes(INTERFACES));
}

/** Starts a service, and lists what it has loaded when it is ready. */
async function modulesOf(service: ServiceName, env: Record<string, string> = {}) {
  const started = await startService(service, { ...servers.env, NODE_OPTIONS: options, ...env });
  try {
    await started.untilReady();
    return loadedModules(started.pid);
  } finally {
    started.kill('SIGKILL');
    await started.exited;
  }
}

test.each(SERVICES)('%s does not load OpenTelemetry', async (service) => {
  expect(await modulesOf(service)).toEqual([]);
});

test('a process with a receiver loads it', async () => {
  const loaded = await modulesOf('api', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' });
  expect(loaded).toContainEqual(expect.stringContaining('/@opentelemetry/sdk-trace/'));
  expect(loaded).toContainEqual(expect.stringContaining('exporter-trace-otlp-http'));
});
