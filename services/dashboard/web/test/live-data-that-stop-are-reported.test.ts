import { expect, test } from '@jest/globals';
import { createHub, type HubMessage, type StreamHandlers } from '../src/live/hub.ts';

/** A hub with a clock and streams that the test moves. */
function hubUnderTest() {
  let now = 1_000;
  const streams: { url: string; handlers: StreamHandlers; isOpen: boolean }[] = [];
  const timers = new Set<{ at: number; run: () => void }>();
  const hub = createHub({
    open(url, handlers) {
      const stream = { url, handlers, isOpen: true };
      streams.push(stream);
      return {
        close: () => {
          stream.isOpen = false;
        },
      };
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
    for (const timer of [...timers]) {
      if (timer.at > now || !timers.delete(timer)) continue;
      timer.run();
    }
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

test('a stream watches no more pushes than the server allows', () => {
  const { hub, tab, streams } = hubUnderTest();
  hub.set(tab, { overview: false, pushes: ['1', '2', '3', '4', '5', '6'] });
  expect(new URLSearchParams(streams[0]?.url.split('?')[1]).getAll('push')).toHaveLength(5);
});

test('silence is reported with the time of the last event, and the stream is opened again', () => {
  const { hub, tab, received, streams, pass } = hubUnderTest();
  hub.set(tab, { overview: true, pushes: [] });
  streams[0]?.handlers.onEvent('overview', '{}');
  pass(17_000);
  expect(received.at(-1)).toEqual({ kind: 'status', live: false, since: 1_000 });
  pass(1_000);
  streams[1]?.handlers.onEvent('overview', '{}');
  expect(received.at(-2)).toEqual({ kind: 'status', live: true, since: 19_000 });
});
