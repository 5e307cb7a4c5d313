import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  type StackBehindProxy,
  startStackBehindProxy,
} from '../support/faults/stack-behind-proxy.ts';
import { requestOnce } from '../support/guarantees/request-once.ts';
import { registerDevice } from '../support/register-device.ts';

/** With 16 connections, MongoDB then executes 160 commands a second: fewer than the clients send. */
const DELAY_MS = 100;
const CLIENTS = 1_000;
const REPEAT_AFTER_MS = 200;

let fixture: StackBehindProxy;
/** Number of responses other than 200 by status. */
const statuses = new Map<number, number>();
beforeAll(async () => {
  fixture = await startStackBehindProxy();
});
afterAll(() => fixture?.stop());

/** Repeats a request with its key until it is accepted, without the wait that the API requests. Returns the push's id. */
async function sendUntilAccepted(key: string, to: string): Promise<string> {
  const { api, apiKey } = fixture.stack.dev;
  const url = new URL(`/push?api_key=${apiKey}`, api);
  const headers = { 'idempotency-key': key };
  const body = JSON.stringify({ to, data: { key } });
  for (;;) {
    const { status, text } = await requestOnce({ method: 'POST', url, headers, body });
    if (status === 200) return (JSON.parse(text) as { id: string }).id;
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    await sleep(REPEAT_AFTER_MS);
  }
}

test('clients that repeat their requests at once while MongoDB is too slow are all served', async () => {
  const { stack, proxy } = fixture;
  const { token } = await registerDevice(stack.dev);
  proxy.delayRequests(DELAY_MS);
  const ids = await Promise.all(
    Array.from({ length: CLIENTS }, (_, index) => sendUntilAccepted(`storm-${index}`, token)),
  ).finally(proxy.restore);
  process.stdout.write(`refused: ${JSON.stringify([...statuses])}\n`);
  expect(new Set(ids).size).toBe(CLIENTS);
  expect([...statuses.keys()].filter((status) => ![500, 503].includes(status))).toEqual([]);
}, 240_000);
