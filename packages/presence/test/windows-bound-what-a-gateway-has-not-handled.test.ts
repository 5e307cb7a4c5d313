import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, expect, test } from '@jest/globals';
import { createGatewayWindows, type GatewayWindows, type Permit } from '../src/gateway-windows.ts';

const INITIAL_SIZE = 2_000;
const MAY_WAIT = { mayWait: true };

let windows: GatewayWindows;
beforeEach(() => {
  windows = createGatewayWindows(1);
});

/** Acquires room that must be free. */
function take(size: number, gateway = 'g1'): Permit {
  const permit = windows.tryAcquire(gateway, size, MAY_WAIT);
  if (typeof permit !== 'object') throw new Error(`${permit ?? 'full'}`);
  return permit;
}

/** Records the order in which waiting dispatches get room. */
function wait(order: string[], name: string, app: string, size: number): Promise<Permit> {
  return windows.acquire('g1', app, size).then((permit) => {
    if (permit === 'stalled') throw new Error('stalled');
    order.push(name);
    return permit;
  });
}

test('each gateway has room of its own, and room is released once', () => {
  const first = take(INITIAL_SIZE);
  expect(windows.tryAcquire('g1', 1, MAY_WAIT)).toBeUndefined();
  take(1, 'g2');
  first.release();
  first.handled();
  first.release();
  take(INITIAL_SIZE);
  expect(windows.tryAcquire('g1', 1, MAY_WAIT)).toBeUndefined();
});

test('a dispatch that is larger than the window is sent alone', () => {
  const first = take(1);
  expect(windows.tryAcquire('g1', INITIAL_SIZE + 1, MAY_WAIT)).toBeUndefined();
  first.release();
  take(INITIAL_SIZE + 1);
});

test('apps take turns, and no dispatch overtakes those that wait', async () => {
  const order: string[] = [];
  const first = take(INITIAL_SIZE);
  const waits = ['a', 'b', 'c'].map((name) => wait(order, `large-${name}`, 'large', 1_000));
  const other = wait(order, 'small', 'small', 10);
  expect(windows.tryAcquire('g1', 1, MAY_WAIT)).toBeUndefined();
  first.release();
  const permits = await Promise.all([waits[0], other]);
  expect(order).toEqual(['large-a', 'small']);
  for (const permit of permits) permit?.release();
  await Promise.all(waits);
  expect(order).toEqual(['large-a', 'small', 'large-b', 'large-c']);
});

test('a dispatch that may not wait gets free room before those that wait', async () => {
  const first = take(1_500);
  const waiting = wait([], '', 'a', 1_000);
  expect(windows.tryAcquire('g1', 500, MAY_WAIT)).toBeUndefined();
  expect(windows.tryAcquire('g1', 500, { mayWait: false })).toEqual(expect.any(Object));
  expect(windows.tryAcquire('g1', 500, { mayWait: false })).toBeUndefined();
  first.release();
  await waiting;
});

test('the identities of a gateway in several shards share its room', () => {
  windows = createGatewayWindows(4);
  for (const identity of ['g1', 'g2', 'g3', 'g4']) take(INITIAL_SIZE / 4, identity);
  expect(windows.tryAcquire('g1', 1, MAY_WAIT)).toBeUndefined();
});

test('a window shrinks once for all that was sent before, and not below half a batch', async () => {
  const permits = [take(1_000), take(1_000)];
  await sleep(300);
  for (const permit of permits) permit.handled();
  take(1_000);
  expect(windows.tryAcquire('g1', 1, MAY_WAIT)).toBeUndefined();
});

test('a window grows while dispatches wait and are handled soon', async () => {
  const permits = [take(1_000), take(1_000)];
  const waits = [0, 1, 2].map(() => wait([], '', 'a', 1_000));
  for (const permit of permits) permit.handled();
  await Promise.all(waits);
});

test('a gateway that reports nothing gets no more dispatches, and those that wait are refused', async () => {
  const silent = take(INITIAL_SIZE);
  const waiting = windows.acquire('g1', 'a', 1);
  silent.stalled();
  expect(await waiting).toBe('stalled');
  expect(windows.tryAcquire('g1', 1, MAY_WAIT)).toBe('stalled');
  expect(await windows.acquire('g1', 'a', 1)).toBe('stalled');
  take(1, 'g2');
});

test('a gateway that has handled a dispatch is not stalled because its results are missing', () => {
  const handled = take(INITIAL_SIZE);
  handled.handled();
  handled.stalled();
  take(INITIAL_SIZE);
});

test('waiting dispatches are refused when the worker closes', async () => {
  take(INITIAL_SIZE);
  const waiting = windows.acquire('g1', 'a', 1);
  windows.close();
  expect(await waiting).toBe('stalled');
});
