import type { Metrics } from '@carillon/runtime/metrics';
import type { Connections } from './connections.ts';

const TELL_EVERY_MS = 1_000;

/** What is counted, once for the whole process. */
export interface Counts {
  connected(result: string): void;
  closed(reason: string): void;
  published(from: 'live' | 'inbox'): void;
  acknowledged(when: 'in-time' | 'recorded'): void;
  answered(answer: string): void;
  watch(connections: Connections): void;
  stop(): void;
}

export function createCounts(metrics: Metrics): Counts {
  const tellers: (() => void)[] = [];

  /** A counter with one label. Looking a label up costs as much as a message, so it is told once a second. */
  function createTally(name: string, help: string, label: string): (value: string) => void {
    const counter = metrics.counter(name, help, [label]);
    const tally = new Map<string, { n: number }>();
    tellers.push(() => {
      for (const [value, cell] of tally) counter.add(cell.n, { [label]: value });
      for (const cell of tally.values()) cell.n = 0;
    });
    return (value) => {
      const cell = tally.get(value);
      if (cell === undefined) tally.set(value, { n: 1 });
      else cell.n += 1;
    };
  }

  function tell(): void {
    for (const one of tellers) one();
  }

  const timer = setInterval(tell, TELL_EVERY_MS);
  return {
    connected: createTally('carillon_gateway_connects_total', 'CONNECTs by their result', 'result'),
    closed: createTally('carillon_gateway_closes_total', 'Closed links by reason', 'reason'),
    published: createTally(
      'carillon_gateway_published_total',
      'Pushes written to sockets: live, or from the inbox',
      'from',
    ),
    acknowledged: createTally(
      'carillon_gateway_acknowledged_total',
      'PUBACKs: in time for the hand-over, or recorded by the gateway itself',
      'when',
    ),
    answered: createTally(
      'carillon_gateway_answers_total',
      'Answers to hand-overs, one a recipient',
      'answer',
    ),
    watch(connections) {
      metrics.gauge('carillon_gateway_connections', 'Connected devices', connections.size);
      metrics.gauge('carillon_gateway_waiting_bytes', 'Bytes that wait in sockets', () => {
        let bytes = 0;
        for (const { wire } of connections.all()) bytes += wire.writableLength;
        return bytes;
      });
    },
    stop() {
      clearInterval(timer);
      tell();
    },
  };
}
