import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from '@jest/globals';
import { startProcess, type TestProcess } from '../../../test/support/child-process.ts';
import { until } from '../../../test/support/until.ts';
import { freePort } from '../../presence/test/start-server.ts';

const SERVICE = fileURLToPath(new URL('stopping-service.ts', import.meta.url));
const DELAY_SECONDS = 2;
/** Far below the delay, for a stop that does not wait. */
const AT_ONCE_MS = 1_500;

let child: TestProcess;
let urls: { ready: string; service: string };

async function start(delaySeconds: number): Promise<void> {
  const [opsPort, port] = [await freePort(), await freePort()];
  urls = { ready: `http://127.0.0.1:${opsPort}/readyz`, service: `http://127.0.0.1:${port}` };
  const settings = {
    OPS_LISTEN: `127.0.0.1:${opsPort}`,
    PORT: String(port),
    STOP_DELAY_SECONDS: String(delaySeconds),
  };
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const env = { ...settings, PATH, NODE_COMPILE_CACHE };
  child = startProcess(process.execPath, [SERVICE], { env, output: 'ignored' });
  await until(async () => (await fetch(urls.ready)).status === 200, { timeoutMs: 20_000 });
}

afterEach(async () => {
  child.kill('SIGKILL');
  await child.exited;
});

/** Sends a signal. @returns the milliseconds until the process ends, and its code */
async function stop(signal: NodeJS.Signals): Promise<{ tookMs: number; code: number | null }> {
  const startedAt = performance.now();
  child.kill(signal);
  const code = await child.exited;
  return { tookMs: performance.now() - startedAt, code };
}

test('a process that stops is unready at once and serves new connections until the delay is over', async () => {
  await start(DELAY_SECONDS);
  const stopped = stop('SIGTERM');
  const { status, faults } = await until(async () => {
    const response = await fetch(urls.ready);
    const { faults } = (await response.json()) as { faults: string[] };
    return response.status === 503 && { status: response.status, faults };
  });
  expect({ status, faults }).toEqual({ status: 503, faults: ['stopping'] });
  expect(await (await fetch(urls.service, { headers: { connection: 'close' } })).text()).toBe(
    'served',
  );
  const { tookMs, code } = await stopped;
  expect(code).toBe(0);
  expect(tookMs).toBeGreaterThanOrEqual(DELAY_SECONDS * 1_000 - 50);
});

test('a process without a delay stops at once', async () => {
  await start(0);
  const { tookMs, code } = await stop('SIGTERM');
  expect(code).toBe(0);
  expect(tookMs).toBeLessThan(AT_ONCE_MS);
});

test('a process with an unexpected error does not wait', async () => {
  await start(60);
  const { code } = await stop('SIGUSR2');
  expect(code).toBe(1);
});
