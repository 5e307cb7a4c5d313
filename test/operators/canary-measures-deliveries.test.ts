import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { freePort } from '../../packages/presence/test/start-server.ts';
import { runCarillon } from '../../services/cli/test/run-carillon.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { readMetric } from '../support/metric-values.ts';
import { readProgress } from '../support/operators/service-process.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/until.ts';

const FAILURES = 'carillon_canary_failures_total';
const SUCCESSES = 'carillon_canary_delivery_seconds_count';
const LAST_SUCCESS = 'carillon_canary_last_success_timestamp_seconds';

let stack: Stack;
beforeAll(async () => {
  stack = await useKillableStack();
});
afterAll(() => stack?.stop());

function canary(state: string, args: readonly string[], signal?: AbortSignal) {
  const fixed = ['--app', stack.dev.app, '--state', state];
  const { api: CARILLON_API, apiKey: CARILLON_API_KEY } = stack.dev;
  return runCarillon(['--json', 'canary', ...fixed, ...args], {
    env: { CARILLON_HOME: stack.home, CARILLON_API, CARILLON_API_KEY },
    ...(signal !== undefined && { signal }),
  });
}

const newStateFile = () => join(createTemporaryFolder(), 'canary.json');

test('one push is measured, by the same device in the next run and by a new one after its deletion', async () => {
  const state = newStateFile();
  const readToken = () => JSON.parse(readFileSync(state, 'utf8')).devices[0].token as string;
  const first = await canary(state, ['--once']);
  expect(first).toMatchObject({ code: 0, err: '' });
  const { ok, seconds, push } = JSON.parse(first.out);
  expect(ok).toBe(true);
  expect(seconds).toBeGreaterThan(0);
  expect((await stack.api('GET', `/pushes/${push}`)).status).toBe(200);

  const token = readToken();
  expect(await canary(state, ['--once'])).toMatchObject({ code: 0 });
  expect(readToken()).toBe(token);
  await stack.api('DELETE', `/devices/${token}`);
  expect(await canary(state, ['--once'])).toMatchObject({ code: 0 });
  expect(readToken()).not.toBe(token);
});

test('a push that fails is counted with its step, and the next one succeeds by itself', async () => {
  const listen = `127.0.0.1:${await freePort()}`;
  const stop = new AbortController();
  const args = ['--interval', '1', '--timeout', '3', '--listen', listen];
  const running = canary(newStateFile(), args, stop.signal);
  const read = async (name: string) => (await readMetric(`http://${listen}`, name))[''] ?? 0;
  await until(async () => (await read(SUCCESSES)) > 0, { what: 'a success' });
  expect(await read(FAILURES)).toBe(0);
  const measured = { name: 'measurement', secondsAgo: expect.any(Number), state: 'ok' };
  expect(await readProgress(`http://${listen}`)).toEqual([measured]);

  const gateways = [0, 1].map((index) => ({ service: 'device-gateway', index }));
  await whileFrozen(stack, gateways, () =>
    until(async () => (await read(FAILURES)) > 0, { what: 'a failure' }),
  );
  const [successes, lastSuccess] = [await read(SUCCESSES), await read(LAST_SUCCESS)];
  const recovered = async () => (await read(SUCCESSES)) > successes;
  await until(recovered, { what: 'a success after the fault' });
  expect(await read(LAST_SUCCESS)).toBeGreaterThan(lastSuccess);

  stop.abort();
  const { code, out } = await running;
  expect(code).toBe(0);
  const failed = out.split('\n').filter((line) => line.includes('"ok":false'));
  expect(JSON.parse(failed[0] ?? '{}').step).toMatch(/^(connect|receive)$/);
});

test('without a stack, the step and the reason are reported with exit code 1', async () => {
  const env = {
    CARILLON_API: 'http://127.0.0.1:1',
    CARILLON_MQTT: 'mqtt://127.0.0.1:1',
    CARILLON_API_KEY: 'k',
  };
  const args = ['--json', 'canary', '--once', '--state', newStateFile()];
  expect(await runCarillon(args, { env })).toMatchObject({ code: 2 });
  const { code, out, err } = await runCarillon(args, { env: { ...env, CARILLON_APP: 'a' } });
  expect(code).toBe(1);
  expect(JSON.parse(out)).toMatchObject({ ok: false, step: 'register' });
  expect(err).toContain("can't be reached");
});
