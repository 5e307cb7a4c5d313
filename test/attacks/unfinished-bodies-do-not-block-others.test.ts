import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { ONLY_API } from '../support/api/only-api.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import {
  closeAll,
  openUnfinishedRequest,
  parseResponse,
  type UnfinishedRequest,
} from '../support/attacks/unfinished-request.ts';
import { sendRawRequest } from '../support/end-to-end/raw-request.ts';
import { registerDevice } from '../support/register-device.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const MEGABYTE = 1_048_576;
const LARGE = 8 * MEGABYTE;
/** Below what a device may send. */
const SMALL = 16 * 1_024 - 1;
const BUSY = /^HTTP\/1\.1 503 .*retry-after: \d+\r\n.*"code":"SERVICE_UNAVAILABLE"/is;

let stack: Stack;
let attacker: TestTenant;
let otherTenant: TestTenant;
let token: string;
let open: UnfinishedRequest[] = [];
beforeAll(async () => {
  stack = await startStack(ONLY_API);
  attacker = await createTestTenant(stack, { plan: 'trial' });
  otherTenant = await createTestTenant(stack, { limit: null });
  ({ token } = await registerDevice(otherTenant.dev));
});
afterEach(() => {
  closeAll(open);
  open = [];
});
afterAll(() => stack?.stop());

const registerPath = '/register';
const pushPath = (tenant: TestTenant) => `/push?api_key=${tenant.apiKey}`;

async function openRequests(count: number, path: string, size: number): Promise<void> {
  const sizes = { contentLength: size, sent: size - 1 };
  for (let left = count; left > 0; left -= 200) {
    const some = Array.from({ length: Math.min(left, 200) }, () =>
      openUnfinishedRequest(stack.dev.api, path, sizes),
    );
    open.push(...(await Promise.all(some)));
  }
}

/** Statuses of requests that are sent one after the other during the attack. */
async function statusesOf(times: number, sendRequest: () => Promise<{ status: number }>) {
  const statuses = new Set<number>();
  for (let i = 0; i < times; i += 1) statuses.add((await sendRequest()).status);
  return [...statuses];
}

const pushOf = (tenant: TestTenant, to: string) => () =>
  tenant.api('POST', '/push', { to, data: { a: 1 } });
const register = async () => {
  await registerDevice(otherTenant.dev);
  return { status: 200 };
};

describe('nine bodies of 8 MB without their last byte, behind one key', () => {
  test('stop neither pushes, those of the same key included, nor devices', async () => {
    const { token: own } = await registerDevice(attacker.dev);
    await openRequests(9, pushPath(attacker), LARGE);
    expect(await statusesOf(50, pushOf(otherTenant, token))).toEqual([200]);
    expect(await statusesOf(20, pushOf(attacker, own))).toEqual([200]);
    expect(await statusesOf(20, register)).toEqual([200]);
  });

  test('are dropped for a body that arrives at a normal rate, behind the same key too', async () => {
    const { apiKey } = otherTenant;
    await openRequests(9, pushPath(otherTenant), LARGE);
    const text = JSON.stringify({ to: [token], data: { a: 1 }, x: 'y'.repeat(LARGE - 1_000) });
    const sent = await openUnfinishedRequest(stack.dev.api, `/push?api_key=${apiKey}`, {
      contentLength: text.length,
      sent: 0,
    });
    open.push(sent);
    for (let at = 0; at < text.length; at += MEGABYTE) {
      sent.socket.write(text.slice(at, at + MEGABYTE));
      await sleep(300);
    }
    expect(await until(() => parseResponse(sent.text()))).toMatchObject({
      status: 200,
    });
    // Those that were dropped for it have got their response.
    const dropped = open.filter(({ text }) => text() !== '' && text() !== sent.text());
    expect(dropped.length).toBeGreaterThan(0);
    for (const { text } of dropped) expect(text()).toMatch(BUSY);
  });
});

describe('4,277 small bodies without their last byte, without any key', () => {
  test('stop neither devices nor pushes from the same address', async () => {
    await openRequests(4_277, registerPath, SMALL);
    expect(await statusesOf(50, register)).toEqual([200]);
    expect(await statusesOf(50, pushOf(otherTenant, token))).toEqual([200]);
  });

  test('are dropped for a small body in two parts and for a large one', async () => {
    await openRequests(4_277, registerPath, SMALL);
    const text = JSON.stringify({ appId: otherTenant.app, platform: 'electron' });
    const parts = await openUnfinishedRequest(stack.dev.api, registerPath, {
      contentLength: text.length,
      sent: 0,
    });
    open.push(parts);
    parts.socket.write(text.slice(0, 10));
    await sleep(300);
    parts.socket.write(text.slice(10));
    expect(await until(() => parseResponse(parts.text()))).toMatchObject({ status: 200 });
    const body = JSON.stringify({ to: [token], data: {}, x: 'y'.repeat(LARGE - 1_000) });
    const headers = { 'content-type': 'application/json' };
    const path = pushPath(otherTenant);
    expect(await sendRawRequest(stack.dev.api, { path, headers, body })).toMatchObject({
      status: 200,
    });
  });
});
