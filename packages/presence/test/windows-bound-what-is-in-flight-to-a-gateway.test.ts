import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { createGatewayWindows, type GatewayWindows, type Permit } from '../src/gateway-windows.ts';

const INITIAL_SIZE = 2_000;
const MIN_SIZE = 1_000;

let windows: GatewayWindows;
const realNow = performance.now;
let nowMs = 0;
beforeAll(() => {
  performance.now = () => nowMs;
});
afterAll(() => {
  performance.now = realNow;
});
beforeEach(() => {
  windows = createGatewayWindows(1);
  // The first window of an app follows from its first dispatch: here those of all apps are the smallest.
  for (const app of ['a', 'b', 'c', 'slow', 'other', 'gone', 'third']) take(1, { app }).release();
});

function pass(ms: number): void {
  nowMs += ms;
}

interface Room {
  gateway?: string;
  app?: string;
  mayWait?: boolean;
}

function tryTake(size: number, { gateway = 'g1', app = 'a', mayWait = true }: Room = {}) {
  return windows.tryAcquire({ gateway, app, size }, { mayWait });
}

/** Acquires room that must be free. */
function take(size: number, room: Room = {}): Permit {
  const permit = tryTake(size, room);
  if (typeof permit !== 'object') throw new Error(`${permit ?? 'full'}`);
  permit.sent(size);
  return permit;
}

/** Records the order in which waiting dispatches get room. */
function wait(order: string[], name: string, app: string, size: number): Promise<Permit> {
  return windows.acquire({ gateway: 'g1', app, size }).then((permit) => {
    if (permit === 'stalled') throw new Error('stalled');
    order.push(name);
    permit.sent(size);
    return permit;
  });
}

/** Sends and ends a dispatch whose devices take so long to acknowledge. */
function dispatch(size: number, receiptsMs: number, room: Room = {}): void {
  const permit = take(size, room);
  permit.record('handled', 0);
  pass(receiptsMs);
  permit.record('acknowledged', size);
}

/** Returns how much has room for an app that nothing waits for. */
function measureRoom(room: Room = {}): number {
  let size = 0;
  const permits: Permit[] = [];
  for (let permit = tryTake(100, room); typeof permit === 'object'; permit = tryTake(100, room)) {
    permits.push(permit);
    size += 100;
  }
  for (const permit of permits) permit.release();
  return size;
}

test('each gateway has room of its own, and room is released once', () => {
  const first = take(INITIAL_SIZE);
  expect(tryTake(1)).toBeUndefined();
  take(1, { gateway: 'g2' });
  first.release();
  first.record('acknowledged', INITIAL_SIZE);
  first.release();
  take(INITIAL_SIZE);
  expect(tryTake(1)).toBeUndefined();
});

test('a dispatch that is larger than the window is sent alone', () => {
  const first = take(1);
  expect(tryTake(INITIAL_SIZE + 1)).toBeUndefined();
  first.release();
  take(INITIAL_SIZE + 1);
});

test('the first window of an app has room for a dozen of its dispatches', () => {
  for (let n = 0; n < 12; n += 1) take(1_000, { app: 'new' }).record('handled', 0);
  expect(tryTake(1, { app: 'new' })).toBeUndefined();
});

test('the room of an app is released by half of the receipts that may still come', () => {
  const dispatched = take(INITIAL_SIZE);
  dispatched.record('handled', 0);
  dispatched.record('acknowledged', 400);
  dispatched.record('not-connected', 1_000);
  dispatched.record('acknowledged', 99);
  expect(tryTake(1)).toBeUndefined();
  dispatched.record('acknowledged', 1);
  take(INITIAL_SIZE);
});

test('recipients that are left out take no room', () => {
  const fewer = take(INITIAL_SIZE);
  fewer.sent(500);
  take(1_500);
  fewer.record('handled', 0);
  fewer.record('acknowledged', 250);
  take(500);
  expect(tryTake(1)).toBeUndefined();
});

test('the gateway keeps the room of a dispatch that is acknowledged before it is handled', () => {
  const permits = ['a', 'b'].map((app) => take(1_000, { app }));
  for (const permit of permits) permit.record('acknowledged', 600);
  expect(tryTake(1, { app: 'c' })).toBeUndefined();
  pass(300);
  for (const permit of permits) permit.record('handled', 0);
  expect(measureRoom({ app: 'c' })).toBe(INITIAL_SIZE / 2);
});

test('small dispatches are no measure for large ones', () => {
  for (let n = 0; n < 5; n += 1) {
    dispatch(2, 20);
    dispatch(1_000, 600);
  }
  expect(measureRoom()).toBe(INITIAL_SIZE);
});

test('the room at a gateway is released for other apps when the gateway has handled a dispatch', () => {
  const slow = take(INITIAL_SIZE, { app: 'slow' });
  expect(tryTake(1, { app: 'other' })).toBeUndefined();
  slow.record('handled', 0);
  expect(tryTake(1, { app: 'slow' })).toBeUndefined();
  take(INITIAL_SIZE, { app: 'other' });
});

test('dispatches that wait for receipts of their app delay no other app', async () => {
  const order: string[] = [];
  const slow = take(INITIAL_SIZE, { app: 'slow' });
  void wait(order, 'slow', 'slow', 1_000);
  const other = wait(order, 'other', 'other', 1_000);
  expect(tryTake(1, { app: 'third' })).toBeUndefined();
  slow.record('handled', 0);
  await other;
  expect(order).toEqual(['other']);
  take(1_000, { app: 'third' });
  expect(tryTake(1, { app: 'slow' })).toBeUndefined();
});

test('devices that never acknowledge do not shrink the window of another app', () => {
  for (let n = 0; n < 5; n += 1) {
    const gone = take(INITIAL_SIZE, { app: 'gone' });
    gone.record('handled', 0);
    pass(1_050);
    gone.record('unacked', INITIAL_SIZE);
    dispatch(1_000, 20, { app: 'other' });
  }
  expect(measureRoom({ app: 'other' })).toBe(INITIAL_SIZE);
});

test('apps take turns, and no dispatch overtakes those that wait for the gateway', async () => {
  const order: string[] = [];
  const first = take(INITIAL_SIZE, { app: 'first' });
  const waits = ['a', 'b', 'c'].map((name) => wait(order, `large-${name}`, 'large', 1_000));
  const other = wait(order, 'small', 'small', 10);
  expect(tryTake(1)).toBeUndefined();
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
  expect(tryTake(500)).toBeUndefined();
  expect(tryTake(500, { mayWait: false })).toEqual(expect.any(Object));
  expect(tryTake(500, { mayWait: false })).toBeUndefined();
  first.release();
  await waiting;
});

/** Makes the window of the gateway as small as it becomes. */
function shrinkToMinimum(): void {
  for (let n = 0; n < 3; n += 1) {
    const slow = take(100);
    pass(300);
    slow.record('handled', 0);
    slow.release();
  }
}

function acknowledge(permit: Permit | undefined, size: number): void {
  permit?.record('handled', 0);
  permit?.record('acknowledged', size);
}

/**
 * Takes room for a dispatch that may not wait every 100 ms, 100 times at most, as long as there is room. Each is handled and
 * acknowledged when the next has got room, so that one is always in progress.
 *
 * @returns how many got room before one got none
 */
function flow(size: number, room: Room): number {
  let count = 0;
  let last: Permit | undefined;
  for (; count < 100; count += 1) {
    const permit = tryTake(size, { ...room, mayWait: false });
    acknowledge(last, size);
    if (typeof permit !== 'object') return count;
    permit.sent(size);
    last = permit;
    pass(100);
  }
  acknowledge(last, size);
  return count;
}

test('a flow of dispatches that may not wait passes over one that waits for the gateway for half a second', async () => {
  shrinkToMinimum();
  const first = take(100, { app: 'other' });
  // Larger than the window has become: it gets room when nothing is in progress.
  const waiting = wait([], '', 'a', 1_000);
  pass(50);
  expect(flow(100, { app: 'other' })).toBe(5);
  acknowledge(first, 100);
  acknowledge(await waiting, 1_000);
  expect(flow(100, { app: 'other' })).toBe(100);
});

test('dispatches that may not wait keep their free room while others wait and get room in turn', async () => {
  const running = [take(900, { app: 'a' }), take(900, { app: 'a' })];
  const waits = Array.from({ length: 20 }, () => wait([], '', 'a', 900));
  for (const waiting of waits) {
    const permit = take(200, { app: 'other', mayWait: false });
    pass(100);
    acknowledge(permit, 200);
    acknowledge(running.shift(), 900);
    running.push(await waiting);
  }
});

test('the identities of a gateway in several shards share its room', () => {
  windows = createGatewayWindows(4);
  for (const gateway of ['g1', 'g2', 'g3', 'g4']) take(INITIAL_SIZE / 4, { gateway });
  expect(tryTake(1)).toBeUndefined();
});

test('the window of a gateway shrinks once for all that was sent before', () => {
  const permits = ['a', 'b'].map((app) => take(1_000, { app }));
  pass(300);
  for (const permit of permits) permit.record('handled', 0);
  expect(measureRoom({ app: 'c' })).toBe(INITIAL_SIZE / 2);
});

test('the window of a gateway has room for half of the largest batch at least', () => {
  shrinkToMinimum();
  expect(measureRoom({ app: 'c' })).toBe(500);
});

test('the window of an app shrinks when receipts take longer than they took before', () => {
  dispatch(100, 20);
  const permits = [take(100), take(100)];
  for (const permit of permits) permit.record('handled', 0);
  pass(350);
  for (const permit of permits) permit.record('acknowledged', 100);
  expect(measureRoom()).toBe(INITIAL_SIZE / 2);
  for (let n = 0; n < 3; n += 1) dispatch(100, 350);
  expect(measureRoom()).toBe(MIN_SIZE);
});

test('devices that always acknowledge slowly do not shrink the window', () => {
  for (let n = 0; n < 5; n += 1) dispatch(1_000, 700);
  expect(measureRoom()).toBe(INITIAL_SIZE);
});

test('devices that have become slow are the measure after six seconds', async () => {
  dispatch(100, 20);
  for (let n = 0; n < 11; n += 1) dispatch(100, 600);
  expect(measureRoom()).toBe(MIN_SIZE);
  const running = take(MIN_SIZE);
  const waiting = wait([], '', 'a', MIN_SIZE);
  running.record('handled', 0);
  pass(600);
  running.record('acknowledged', MIN_SIZE);
  (await waiting).release();
  expect(measureRoom()).toBeGreaterThan(MIN_SIZE);
});

test('the window of an app whose devices are gone grows while its dispatches wait, and does not shrink', async () => {
  dispatch(100, 20);
  const gone = take(INITIAL_SIZE);
  const waiting = wait([], '', 'a', 100);
  gone.record('handled', 0);
  gone.record('acknowledged', 900);
  pass(1_050);
  gone.record('unacked', 1_100);
  (await waiting).release();
  take(INITIAL_SIZE).record('handled', 0);
  take(INITIAL_SIZE);
  expect(tryTake(1)).toBeUndefined();
});

test('windows grow while dispatches wait that are handled and acknowledged soon', async () => {
  const permits = [take(1_000), take(1_000)];
  const waits = [0, 1, 2].map(() => wait([], '', 'a', 1_000));
  for (const permit of permits) {
    permit.record('handled', 0);
    permit.record('acknowledged', 500);
  }
  await Promise.all(waits);
});

test('a gateway that reports nothing gets no more dispatches, and those that wait are refused', async () => {
  const silent = take(INITIAL_SIZE);
  const waiting = windows.acquire({ gateway: 'g1', app: 'a', size: 1 });
  silent.stalled();
  expect(await waiting).toBe('stalled');
  expect(tryTake(1)).toBe('stalled');
  expect(await windows.acquire({ gateway: 'g1', app: 'a', size: 1 })).toBe('stalled');
  take(1, { gateway: 'g2' });
});

test('a gateway that has handled a dispatch is not stalled because its results are missing', () => {
  const handled = take(INITIAL_SIZE);
  handled.record('handled', 0);
  handled.stalled();
  handled.release();
  take(INITIAL_SIZE);
});

test('waiting dispatches are refused when the worker closes', async () => {
  take(INITIAL_SIZE);
  const waiting = windows.acquire({ gateway: 'g1', app: 'a', size: 1 });
  windows.close();
  expect(await waiting).toBe('stalled');
});
