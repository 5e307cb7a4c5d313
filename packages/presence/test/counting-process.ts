import { failureCode } from '@carillon/core/outcomes';
import {
  countAccepted,
  countFailures,
  countRecipients,
  processCounts,
} from '@carillon/core/process-counts';
import { startFigures } from '../src/figures-writer.ts';

// Adds counts of its own to the figures, which `figures-of-all-processes-add-up` starts as another process.
const figures = startFigures(
  { url: process.argv[2] ?? '' },
  {
    log: { warn: () => undefined },
    readBuckets: () => [{ boundMs: Number.POSITIVE_INFINITY, count: 1 }],
    intervalMs: 20,
  },
);
figures.reportOnline('gateway-1', () => 12);
for (let n = 0; n < 4; n += 1) countAccepted(n < 3 ? 'app-1' : 'app-2');
countRecipients('app-1', 'mqtt', { delivered: 1 });
countFailures(Uint8Array.of(failureCode('wrong-credential'), 2));
process.once('message', async () => {
  processCounts.pushesAccepted += 1;
  await figures.stop();
  process.disconnect();
});
