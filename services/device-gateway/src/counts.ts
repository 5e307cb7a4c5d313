import type { Metrics } from '@carillon/runtime/metrics';
import type { Connections } from './connections.ts';

/** What is counted, once for the whole process. */
export function createCounts(metrics: Metrics) {
  const connects = metrics.counter('carillon_gateway_connects_total', 'CONNECTs by their result', [
    'result',
  ]);
  const closes = metrics.counter('carillon_gateway_closes_total', 'Closed links by reason', [
    'reason',
  ]);
  const published = metrics.counter(
    'carillon_gateway_published_total',
    'Pushes written to sockets: live, or from the inbox',
    ['from'],
  );
  const acknowledged = metrics.counter(
    'carillon_gateway_acknowledged_total',
    'PUBACKs: in time for the hand-over, or recorded by the gateway itself',
    ['when'],
  );
  const answers = metrics.counter(
    'carillon_gateway_answers_total',
    'Answers to hand-overs, one a recipient',
    ['answer'],
  );
  return {
    connected: (result: string) => connects.add(1, { result }),
    closed: (reason: string) => closes.add(1, { reason }),
    published: (from: 'live' | 'inbox') => published.add(1, { from }),
    acknowledged: (when: 'in-time' | 'recorded') => acknowledged.add(1, { when }),
    answered: (answer: string) => answers.add(1, { answer }),
    watch(connections: Connections) {
      metrics.gauge('carillon_gateway_connections', 'Connected devices', connections.size);
      metrics.gauge('carillon_gateway_waiting_bytes', 'Bytes that wait in sockets', () => {
        let bytes = 0;
        for (const { wire } of connections.all()) bytes += wire.writableLength;
        return bytes;
      });
    },
  };
}
