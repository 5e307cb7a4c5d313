import { expect, test } from '@jest/globals';
import { createIsolation } from '../src/deliver/isolation.ts';

/** Creates work that ends when the test calls `end`. */
function createWork(events: string[], name: string) {
  const { promise, resolve } = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  return {
    end: resolve,
    begun: begun.promise,
    async run(): Promise<string> {
      events.push(`${name} begins`);
      begun.resolve();
      await promise;
      events.push(`${name} ends`);
      return name;
    },
  };
}

test('suspected work waits for the work in progress, and all other work for it', async () => {
  const isolation = createIsolation();
  const events: string[] = [];
  const [first, second] = [createWork(events, 'first'), createWork(events, 'second')];
  const [suspected, next] = [createWork(events, 'suspected'), createWork(events, 'next')];
  const running = [isolation.runTogether(first.run), isolation.runTogether(second.run)];
  await Promise.all([first.begun, second.begun]);
  expect(isolation.isInterrupting()).toBe(false);
  const alone = [isolation.runAlone(suspected.run), isolation.runAlone(next.run)];
  while (!isolation.isInterrupting()) await new Promise(setImmediate);
  const later = createWork(events, 'later');
  running.push(isolation.runTogether(later.run));
  later.end();
  first.end();
  second.end();
  await suspected.begun;
  suspected.end();
  await next.begun;
  next.end();
  expect(await Promise.all([...running, ...alone])).toEqual([
    ...['first', 'second', 'later', 'suspected', 'next'],
  ]);
  expect(events).toEqual([
    ...['first begins', 'second begins', 'first ends', 'second ends'],
    ...['suspected begins', 'suspected ends', 'next begins', 'next ends'],
    ...['later begins', 'later ends'],
  ]);
  expect(isolation.isInterrupting()).toBe(false);
});

test('suspected work that fails does not block other work', async () => {
  const isolation = createIsolation();
  const failing = isolation.runAlone(() => Promise.reject(new Error('failed')));
  await expect(failing).rejects.toThrow('failed');
  expect(await isolation.runTogether(async () => 'runs')).toBe('runs');
});
