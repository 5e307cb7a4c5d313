import { beforeEach, expect, test } from '@jest/globals';
import { createLargePushes } from '../src/push/large-pushes.ts';
import { createTestClock } from './edge.ts';

const MEGABYTE = 1024 * 1024;
const MAX_WAIT_MS = 3_800;

let clock: ReturnType<typeof createTestClock>;
let inTurn: ReturnType<typeof createLargePushes>;
/** Those in progress, in the order of their begin. */
let begun: { app: string; end: PromiseWithResolvers<void> }[];
beforeEach(() => {
  clock = createTestClock();
  inTurn = createLargePushes(clock);
  begun = [];
});

/** Sends a large push. Returns how it ended. */
async function send(app: string, { tokens = 100_000, chars = MEGABYTE } = {}): Promise<string> {
  const work = async () => {
    const end = Promise.withResolvers<void>();
    begun.push({ app, end });
    await end.promise;
    return 'accepted';
  };
  return inTurn({ owner: app, tokens, chars }, MAX_WAIT_MS, work).catch(
    ({ code, retryAfterSeconds }) => `${code}, again in ${retryAfterSeconds} s`,
  );
}

const apps = () => begun.map(({ app }) => app);
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Ends the work of the push that began as number `n`. */
async function end(n: number): Promise<void> {
  begun[n]?.end.resolve();
  await settled();
}

test('each app has one at a time, two apps at once, and apps take turns', async () => {
  const pushes = ['a', 'a', 'a', 'b', 'c', 'c'].map((app) => send(app));
  expect(apps()).toEqual(['a', 'b']);
  await end(0);
  expect(apps()).toEqual(['a', 'b', 'a']);
  await end(1);
  expect(apps()).toEqual(['a', 'b', 'a', 'c']);
  await end(2);
  await end(3);
  expect(apps()).toEqual(['a', 'b', 'a', 'c', 'a', 'c']);
  await end(4);
  await end(5);
  expect(await Promise.all(pushes)).toEqual(pushes.map(() => 'accepted'));
});

test('one whose work fails gives its turn to the next', async () => {
  const pushes = ['a', 'a'].map((app) => send(app));
  begun[0]?.end.reject({ code: 'NO_RECIPIENTS' });
  await settled();
  await end(1);
  expect(await Promise.all(pushes)).toEqual(['NO_RECIPIENTS, again in undefined s', 'accepted']);
});

test('one that waits too long is refused before its work, with the time that those before it may take', async () => {
  const pushes = ['a', 'a', 'a'].map((app) => send(app));
  clock.pass(MAX_WAIT_MS);
  await settled();
  expect(apps()).toEqual(['a']);
  await end(0);
  expect(await Promise.all(pushes)).toEqual([
    'accepted',
    'SERVICE_UNAVAILABLE, again in 5 s',
    'SERVICE_UNAVAILABLE, again in 10 s',
  ]);
});

test('if those that wait hold too much memory, the newest of the app with most is refused at once', async () => {
  const held = [send('a'), send('b')];
  const small = send('c', { chars: MEGABYTE });
  const large = Array.from({ length: 5 }, () => send('a', { chars: 8 * MEGABYTE }));
  // 33 MB wait with the fourth: it and the fifth are too many.
  expect(await Promise.all(large.slice(3))).toEqual([
    'SERVICE_UNAVAILABLE, again in 20 s',
    'SERVICE_UNAVAILABLE, again in 20 s',
  ]);
  for (let n = 0; n < 6; n += 1) await end(n);
  expect(await Promise.all([...held, small, ...large.slice(0, 3)])).toEqual(
    Array.from({ length: 6 }, () => 'accepted'),
  );
});
