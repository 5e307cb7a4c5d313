import { countFailures, countRecipients, processCounts } from '@carillon/core/process-counts';
import { startFigures } from '../src/figures-writer.ts';

/** Command for a counting process: events to count, or a value to report. */
export interface CountingCommand {
  accepted?: number;
  delivered?: number;
  failureCodes?: number[];
  /** Receipts by the upper bound of their latency. */
  receipts?: [boundMs: number, count: number][];
  online?: number;
  backlog?: number;
  stop?: true;
}

// Counts the events of its commands and adds them to the figures: the counts belong to a process.
const [url = '', intervalMs = ''] = process.argv.slice(2);
const receipts = new Map<number, number>();
let online = 0;
const report = (text: string) => process.connected && process.send?.(text);
const figures = startFigures(
  { url },
  {
    log: { warn: () => report('warned') },
    readBuckets: () => [...receipts].map(([boundMs, count]) => ({ boundMs, count })),
    intervalMs: Number(intervalMs),
  },
);

process.on('message', (command: CountingCommand) => {
  processCounts.pushesAccepted += command.accepted ?? 0;
  countRecipients('mqtt', { delivered: command.delivered ?? 0 });
  countFailures(Uint8Array.from(command.failureCodes ?? []));
  for (const [boundMs, count] of command.receipts ?? [])
    receipts.set(boundMs, (receipts.get(boundMs) ?? 0) + count);
  if (command.online !== undefined) {
    online = command.online;
    figures.reportOnline('gateway-1', () => online);
  }
  const { backlog } = command;
  if (backlog !== undefined) {
    figures.reportBacklog(async () => {
      report('read the backlog');
      return [{ channel: 'apns', pending: backlog, oldestMs: 1_500, deferred: 2 }];
    });
  }
  if (command.stop) void stop();
});

async function stop(): Promise<void> {
  const startedAt = performance.now();
  await figures.stop();
  report(`stopped in ${performance.now() - startedAt}`);
  process.disconnect();
}

report('started');
