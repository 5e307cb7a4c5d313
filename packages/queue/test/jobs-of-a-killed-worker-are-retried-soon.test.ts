import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { startProcess } from '../../../test/support/child-process.ts';
import { until } from '../../../test/support/until.ts';
import { startRedis } from '../../presence/test/start-server.ts';

const WORKER = fileURLToPath(new URL('stopping-worker.ts', import.meta.url));
/** A few intervals of the check for stalled jobs, and the start of a process. */
const RETRIED_WITHIN_MS = 20_000;

test('another worker gets the job that a killed one had begun', async () => {
  const redis = await startRedis();
  const start = () => startProcess(process.execPath, [WORKER, redis.url]);
  const workers = [start()];
  const untilBegun = () =>
    until(() => workers.at(-1)?.output().includes('begun'), { timeoutMs: RETRIED_WITHIN_MS });
  try {
    await untilBegun();
    workers[0]?.kill('SIGKILL');
    await workers[0]?.exited;
    // It adds the same job, which Redis still has.
    workers.push(start());
    await untilBegun();
    expect(workers.map(({ output }) => output())).toEqual(['begun\n', 'begun\n']);
  } finally {
    for (const worker of workers) {
      worker.kill('SIGKILL');
      await worker.exited;
    }
    await redis.stop();
  }
}, 60_000);
