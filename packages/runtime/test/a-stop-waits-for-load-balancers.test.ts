import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { startProcess, type TestProcess } from '../../../test/support/child-process.ts';
import { until } from '../../../test/support/until.ts';
import { freePort } from '../../presence/test/start-server.ts';

const SERVICE = fileURLToPath(new URL('stopping-service.ts', import.meta.url));
const DELAY_SECONDS = 2;

/** A process of a service, and its addresses. */
interface Service {
  child: TestProcess;
  readyUrl: string;
  url: string;
}

let services: Service[];
beforeEach(() => {
  services = [];
});
afterEach(async () => {
  for (const { child } of services) {
    child.kill('SIGKILL');
    await child.exited;
  }
});

async function start(delaySeconds: number): Promise<Service> {
  const [opsPort, port] = [await freePort(), await freePort()];
  const settings = {
    OPS_LISTEN: `127.0.0.1:${opsPort}`,
    PORT: String(port),
    STOP_DELAY_SECONDS: String(delaySeconds),
  };
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const env = { ...settings, PATH, NODE_COMPILE_CACHE };
  const child = startProcess(process.execPath, [SERVICE], { env, output: 'errors shown' });
  const readyUrl = `http://127.0.0.1:${opsPort}/readyz`;
  const service = { child, readyUrl, url: `http://127.0.0.1:${port}` };
  services.push(service);
  await until(async () => (await fetch(readyUrl)).status === 200);
  return service;
}

test('a process that stops is unready at once and serves new connections until the delay is over', async () => {
  const { child, readyUrl, url } = await start(DELAY_SECONDS);
  const startedAt = performance.now();
  child.kill('SIGTERM');
  const faults = await until(async () => {
    const response = await fetch(readyUrl);
    const body = (await response.json()) as { faults: string[] };
    return response.status === 503 && body.faults;
  });
  expect(faults).toEqual(['stopping']);
  expect(await (await fetch(url, { headers: { connection: 'close' } })).text()).toBe('served');
  expect(await child.exited).toBe(0);
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(DELAY_SECONDS * 1_000 - 50);
});

test('a process without a delay does not wait, nor does one with an unexpected error', async () => {
  const [delayed, failing, immediate] = [await start(5), await start(300), await start(0)];
  const exits: string[] = [];
  const recordExit = async (what: string, { child }: Service) => {
    const code = await child.exited;
    exits.push(`${what}: ${code}`);
  };
  const exited = [
    recordExit('delayed', delayed),
    recordExit('failing', failing),
    recordExit('immediate', immediate),
  ];
  delayed.child.kill('SIGTERM');
  failing.child.kill('SIGUSR2');
  immediate.child.kill('SIGTERM');
  await Promise.all(exited);
  expect(exits.slice(0, 2).toSorted()).toEqual(['failing: 1', 'immediate: 0']);
  expect(exits[2]).toBe('delayed: 0');
});
