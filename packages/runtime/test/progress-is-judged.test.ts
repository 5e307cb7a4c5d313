import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { createEventLoopWatch } from '../src/event-loop.ts';
import { createProgress, type Progress } from '../src/progress.ts';

const SECOND = 1_000;
const PROBE_SECONDS = 5;
const UNREADY_SECONDS = 15;
const DEAD_SECONDS = 30;
const HOUR = 3_600;

let seconds: number;
const now = () => seconds * SECOND;
beforeEach(() => {
  seconds = 0;
});

describe('a loop', () => {
  let progress: Progress;
  let lastProgressAt: number;
  let isExpected: () => Promise<boolean>;
  let checks: number;
  beforeEach(() => {
    lastProgressAt = 0;
    checks = 0;
    isExpected = async () => true;
    progress = createProgress({ now });
    progress.watch({
      name: 'reader',
      lastProgressAt: () => lastProgressAt,
      isExpected: () => {
        checks += 1;
        return isExpected();
      },
    });
  });

  /** Probes for some time as an orchestrator does, and returns the last result. */
  async function probeFor(duration: number) {
    let result = await progress.check();
    for (const end = seconds + duration; seconds < end; ) {
      seconds += PROBE_SECONDS;
      result = await progress.check();
    }
    return result;
  }

  test('that makes progress is ready, and is not checked for pending work', async () => {
    for (let i = 0; i < 20; i += 1) {
      lastProgressAt = now();
      expect(await probeFor(PROBE_SECONDS)).toEqual({ unready: [], dead: [] });
    }
    expect(checks).toBe(0);
  });

  test('that stalls while work is pending turns unready, then dead, and recovers', async () => {
    const noticed = 2 * PROBE_SECONDS;
    expect(await probeFor(noticed + UNREADY_SECONDS - PROBE_SECONDS)).toMatchObject({
      unready: [],
    });
    expect(await probeFor(PROBE_SECONDS)).toEqual({ unready: ['reader'], dead: [] });
    expect(await probeFor(DEAD_SECONDS - UNREADY_SECONDS)).toMatchObject({ dead: ['reader'] });
    lastProgressAt = now();
    expect(await probeFor(PROBE_SECONDS)).toEqual({ unready: [], dead: [] });
  });

  test('is listed with the seconds since its last progress, and its state', async () => {
    const listed = (secondsAgo: number, state: string) => [{ name: 'reader', secondsAgo, state }];
    seconds = 1.26;
    expect(progress.list()).toEqual(listed(1.3, 'ok'));
    const unreadyAt = 2 * PROBE_SECONDS + UNREADY_SECONDS;
    seconds = 0;
    await probeFor(unreadyAt);
    expect(progress.list()).toEqual(listed(unreadyAt, 'unready'));
    await probeFor(DEAD_SECONDS - UNREADY_SECONDS);
    expect(progress.list()).toEqual(listed(unreadyAt + DEAD_SECONDS - UNREADY_SECONDS, 'dead'));
    lastProgressAt = now();
    await probeFor(PROBE_SECONDS);
    expect(progress.list()).toEqual(listed(PROBE_SECONDS, 'ok'));
  });

  test.each([
    ['there is no work', async () => false],
    ['a server does not respond', () => Promise.reject(new Error('connect ECONNREFUSED'))],
  ])('that stalls because %s is ready; only later time counts', async (_why, response) => {
    const expected = isExpected;
    isExpected = response;
    expect(await probeFor(120)).toEqual({ unready: [], dead: [] });
    isExpected = expected;
    seconds += PROBE_SECONDS;
    expect(await probeFor(UNREADY_SECONDS - PROBE_SECONDS)).toMatchObject({ unready: [] });
    expect(await probeFor(PROBE_SECONDS)).toMatchObject({ unready: ['reader'] });
  });

  test('is not judged by a period without probes', async () => {
    await probeFor(2 * PROBE_SECONDS);
    seconds += HOUR;
    expect(await progress.check()).toEqual({ unready: [], dead: [] });
  });

  test('is checked for pending work once a second, however many probes come', async () => {
    await progress.check();
    seconds += 2 * PROBE_SECONDS;
    await Promise.all(Array.from({ length: 20 }, () => progress.check()));
    expect(checks).toBe(1);
  });

  test('whose check for pending work does not return does not delay a probe', async () => {
    await progress.check();
    const { promise, resolve } = Promise.withResolvers<boolean>();
    isExpected = () => promise;
    seconds += 2 * PROBE_SECONDS;
    // Before the check for pending work has timed out.
    const timedOut = sleep(2_500, 'late', { ref: false });
    expect(await Promise.race([progress.check(), timedOut])).toEqual({ unready: [], dead: [] });
    resolve(false);
  });
});

test('an activity is listed with the seconds since it last happened, and never judged', async () => {
  const progress = createProgress({ now });
  const note = progress.trackActivity('response');
  expect(progress.list()).toEqual([{ name: 'response', secondsAgo: null, state: 'ok' }]);
  note();
  for (; seconds < 2 * DEAD_SECONDS; seconds += PROBE_SECONDS)
    expect(await progress.check()).toEqual({ unready: [], dead: [] });
  const secondsAgo = 2 * DEAD_SECONDS;
  expect(progress.list()).toEqual([{ name: 'response', secondsAgo, state: 'ok' }]);
  note();
  expect(progress.list()).toEqual([{ name: 'response', secondsAgo: 0, state: 'ok' }]);
});

describe('the event loop', () => {
  function statesAfter(beatSeconds: readonly number[]): string[] {
    const watch = createEventLoopWatch(now);
    return beatSeconds.map((duration) => {
      seconds += duration;
      watch.beat();
      return watch.state();
    });
  }

  test('is ready while its timer is nearly in time', () => {
    expect(statesAfter([1, 1.5, 2.9, 1, 2.9])).toEqual(Array(5).fill('ok'));
  });

  test('has an age, which begins anew with each beat', () => {
    const watch = createEventLoopWatch(now);
    seconds += 4;
    expect(watch.measureBeatAge()).toBe(4 * SECOND);
    watch.beat();
    expect(watch.measureBeatAge()).toBe(0);
  });

  test('is ready after one pause, however long', () => {
    expect(statesAfter([1, HOUR, 1])).toEqual(Array(3).fill('ok'));
  });

  test('that is blocked repeatedly is unready after 10 s and dead after 30 s', () => {
    const states = statesAfter([1, 4, 4, 4, 4, 4, 4, 4, 4, 1]);
    expect(states).toEqual([...Array(3).fill('ok'), ...Array(5).fill('unready'), 'dead', 'ok']);
  });
});
