import { countFailures, countRecipients, processCounts } from '@carillon/core/process-counts';
import { startFigures } from '../src/figures-writer.ts';

/** Command for a counting process: events to count, or a value to report. */
export interface CountingOrder {
  accepted?: number;
  delivered?: number;
  failureCodes?: number[];
  /** Receipts by the upper bound of their latency. */
  receipts?: [boundMs: number, count: number][];
  online?: number;
  backlog?: number;
  stop?: true;
}

// A process that counts what it is told and adds it to the figures: the counts belong to a process.
const [url = '', intervalMs = ''] = process.argv.slice(2);
const receipts = new Map<number, number>();
let online = 0;
const say = (text: string) => process.connected && process.send?.(text);
const figures = startFigures(
  { url },
  {
    log: { warn: () => say('warned') },
    readBuckets: () => [...receipts].map(([boundMs, count]) => ({ boundMs, count })),
    intervalMs: Number(intervalMs),
  },
);

process.on('message', (order: CountingOrder) => {
  processCounts.pushesAccepted += order.accepted ?? 0;
  countRecipients('mqtt', { delivered: order.delivered ?? 0 });
  countFailures(Uint8Array.from(order.failureCodes ?? []));
  for (const [boundMs, count] of order.receipts ?? [])
    receipts.set(boundMs, (receipts.get(boundMs) ?? 0) + count);
  if (order.online !== undefined) {
    online = order.online;
    figures.reportOnline('gateway-1', () => online);
  }
  const { backlog } = order;
  if (backlog !== undefined) {
    figures.reportBacklog(async () => {
      say('read the backlog');
      return [{ channel: 'apns', pending: backlog, oldestMs: 1_500, deferred: 2 }];
    });
  }
  if (order.stop) void stop();
});

async function stop(): Promise<void> {
  const startedAt = performance.now();
  await figures.stop();
  say(`stopped in ${performance.now() - startedAt}`);
  process.disconnect();
}

say('started');
