import { SettingsError } from '@carillon/core/settings-error';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { createStartConditions, StartAborted } from '../src/start-conditions.ts';

let lines: string[];
let stopping: AbortController;
const log = {
  info: (text: string) => void lines.push(text),
  warn: (_: object, text: string) => void lines.push(text),
};
beforeEach(() => {
  lines = [];
  stopping = new AbortController();
});
afterEach(() => stopping.abort());

const conditions = () => createStartConditions(log as never, stopping.signal);

test('the result of a check that succeeds at once is returned without a log line', async () => {
  const { waitFor, pending } = conditions();
  expect(await waitFor('MongoDB', async () => 7)).toBe(7);
  expect(pending()).toBeUndefined();
  expect(lines).toEqual([]);
});

test('a check is repeated until it succeeds; the log names the condition once', async () => {
  const { waitFor, pending } = conditions();
  let tries = 0;
  const waiting = waitFor('MongoDB', async () => {
    tries += 1;
    if (lines.length === 0 || tries < 3) throw new Error('not yet');
    return 'there';
  });
  expect(pending()).toBe('MongoDB');
  expect(await waiting).toBe('there');
  expect(tries).toBeGreaterThan(2);
  expect(lines).toEqual(['waiting for MongoDB', 'MongoDB is available; continuing start-up']);
});

test('a wrong setting ends the wait at once', async () => {
  const wrong = new SettingsError('MONGODB_URI: wrong');
  await expect(conditions().waitFor('MongoDB', () => Promise.reject(wrong))).rejects.toBe(wrong);
});

test('a stop ends a wait, even within a check that does not return', async () => {
  const { waitFor } = conditions();
  const waiting = waitFor('MongoDB', () => new Promise(() => undefined));
  stopping.abort();
  await expect(waiting).rejects.toBeInstanceOf(StartAborted);
  await expect(waitFor('Redis', async () => 1)).rejects.toBeInstanceOf(StartAborted);
});
