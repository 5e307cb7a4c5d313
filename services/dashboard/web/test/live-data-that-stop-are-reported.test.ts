import { describe, expect, test } from '@jest/globals';
import { createHub, type HubMessage, type StreamHandlers } from '../src/live/hub.ts';
import { type LiveState, toLiveStatus, updateLiveState } from '../src/live/live-status.ts';

/** A hub with a clock and streams that the test controls. */
function hubUnderTest() {
  let now = 1_000;
  const streams: { url: string; handlers: StreamHandlers; isOpen: boolean }[] = [];
  const timers = new Set<{ at: number; run: () => void }>();
  const hub = createHub({
    open(url, handlers) {
      const stream = { url, handlers, isOpen: true };
      streams.push(stream);
      return { close: () => void Object.assign(stream, { isOpen: false }) };
    },
    now: () => now,
    after(ms, run) {
      const timer = { at: now + ms, run };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
  });
  const pass = (ms: number): void => {
    now += ms;
    for (const timer of [...timers]) if (timer.at <= now && timers.delete(timer)) timer.run();
  };
  const received: HubMessage[] = [];
  const tab = (message: HubMessage): void => void received.push(message);
  return { hub, tab, received, streams, pass };
}

test('tabs share one stream, which ends with the last of them', () => {
  const { hub, tab, streams } = hubUnderTest();
  const other = (): void => undefined;
  hub.set(tab, { overview: true, pushes: [] });
  hub.set(other, { overview: true, pushes: [] });
  expect(streams.map(({ url }) => url)).toEqual(['/api/events']);
  hub.remove(tab);
  expect(streams[0]?.isOpen).toBe(true);
  hub.remove(other);
  expect(streams[0]?.isOpen).toBe(false);
});

test('an operator gets no data of a stream that another operator of the browser has opened', () => {
  const { hub, tab, received, streams } = hubUnderTest();
  const before = { overview: true, pushes: [], operator: 'before' };
  const other: HubMessage[] = [];
  const otherTab = (message: HubMessage): void => void other.push(message);
  hub.set(otherTab, before);
  hub.set(tab, before);
  // The tab shows the login, and the other one stays open.
  hub.set(tab, { overview: false, pushes: [] });
  const known = received.length;
  streams[0]?.handlers.onEvent('overview', '{}');
  expect([other.length, received.length]).toEqual([2, known]);
  hub.set(tab, { ...before, operator: 'next' });
  expect(streams.map(({ isOpen }) => isOpen)).toEqual([false, true]);
  expect(received).toHaveLength(known);
  // A report of the other tab that it is there changes nothing.
  hub.set(otherTab, before);
  expect(streams).toHaveLength(2);
});

test('a stream watches no more pushes than the server allows', () => {
  const { hub, tab, streams } = hubUnderTest();
  hub.set(tab, { overview: false, pushes: Array.from({ length: 101 }, (_, n) => `${n}`) });
  expect(new URLSearchParams(streams[0]?.url.split('?')[1]).getAll('push')).toHaveLength(100);
});

test('a stream without events is reported with the time of the last one, and opened again', () => {
  const { hub, tab, received, streams, pass } = hubUnderTest();
  hub.set(tab, { overview: true, pushes: [] });
  streams[0]?.handlers.onEvent('overview', '{}');
  pass(17_000);
  expect(received.at(-1)).toEqual({ kind: 'status', live: false, since: 1_000 });
  pass(1_000);
  streams[1]?.handlers.onEvent('overview', '{}');
  expect(received.at(-2)).toEqual({ kind: 'status', live: true, since: 19_000 });
});

describe('while the server is available and Redis is not', () => {
  const live: HubMessage = { kind: 'status', live: true, since: 1_000 };
  const overview: HubMessage = { kind: 'overview', data: '{}' };
  const unavailable = (since: number | null): HubMessage => ({
    kind: 'unavailable',
    data: JSON.stringify({ since }),
  });
  const stateAfter = (...messages: HubMessage[]) =>
    messages.reduce<LiveState>((state, message) => updateLiveState(state, message, 9_000), {});

  test('the overview is not live, with the time of the last reading', () => {
    const state = stateAfter(live, overview, unavailable(5_000), unavailable(5_000));
    expect(toLiveStatus(state, true)).toEqual({ live: false, since: 5_000, lacksRedis: true });
  });

  test('the overview is not live when the server has never read it', () => {
    const first = stateAfter(live, unavailable(null));
    const later = updateLiveState(first, unavailable(null), 14_000);
    expect(toLiveStatus(later, true)).toEqual({ live: false, since: 9_000, lacksRedis: true });
  });

  test('a push is live, because it comes from MongoDB', () => {
    const state = stateAfter(live, unavailable(5_000));
    expect(toLiveStatus(state, false)).toEqual({ live: true, since: 1_000 });
  });

  test('the next overview is live again', () => {
    const state = stateAfter(live, unavailable(5_000), overview);
    expect(toLiveStatus(state, true)).toEqual({ live: true, since: 1_000 });
  });

  test('a stream that ends afterwards does not make the data newer, and tells nothing of Redis', () => {
    const ended: HubMessage = { kind: 'status', live: false, since: 7_000 };
    const state = stateAfter(live, unavailable(5_000), ended);
    expect(toLiveStatus(state, true)).toEqual({ live: false, since: 5_000, lacksRedis: false });
    expect(toLiveStatus(state, false)).toEqual({ live: false, since: 7_000 });
  });
});
