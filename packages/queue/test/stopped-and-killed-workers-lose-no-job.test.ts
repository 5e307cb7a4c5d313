import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { startProcess } from '../../../test/support/child-process.ts';
import { measureLag } from '../../../test/support/lag.ts';
import { until } from '../../../test/support/until.ts';
import { startRedis } from '../../presence/test/start-server.ts';

const STOPPING = fileURLToPath(new URL('stopping-worker.ts', import.meta.url));
const LATE_JOB = fileURLToPath(new URL('late-job-worker.ts', import.meta.url));

let redis: Awaited<ReturnType<typeof startRedis>>;
let workers: ReturnType<typeof startProcess>[] = [];
beforeEach(async () => {
  redis = await startRedis();
});
afterEach(async () => {
  for (const worker of workers.splice(0)) {
    worker.kill('SIGKILL');
    await worker.exited;
  }
  await redis.stop();
});

/** Starts a worker as a process: BullMQ keeps timers. */
function startWorker(program: string) {
  const worker = startProcess(process.execPath, [program, redis.url]);
  workers = [...workers, worker];
  const untilPrinted = (line: string) => until(() => worker.output().includes(line));
  return { ...worker, untilPrinted, untilBegun: () => untilPrinted('begun') };
}

test.each(['there', 'killed', 'frozen'])(
  'a stop waits for the job in progress, and no longer for Redis, which is %s',
  async (state) => {
    const worker = startWorker(STOPPING);
    await worker.untilBegun();
    if (state === 'killed') await redis.stop();
    if (state === 'frozen') process.kill(redis.pid, 'SIGSTOP');
    worker.kill('SIGTERM');
    expect(await worker.exited).toBe(0);
    expect(worker.output()).toBe('up\nbegun\ndone\nstopped\n');
  },
);

test('a stop waits for a job that Redis was sending', async () => {
  const worker = startWorker(LATE_JOB);
  expect(await worker.exited).toBe(0);
  expect(worker.output()).toBe('first begun\nsecond begun\nsecond done\nstopped\n');
});

test('another worker gets the job that a killed one had begun', async () => {
  const killed = startWorker(STOPPING);
  await killed.untilBegun();
  killed.kill('SIGKILL');
  await killed.exited;
  // It adds the same job, which Redis still has.
  const next = startWorker(STOPPING);
  await next.untilPrinted('up');
  const [startedAt, lag] = [performance.now(), measureLag()];
  await next.untilBegun();
  // BullMQ's own intervals would take half a minute and more.
  expect(performance.now() - startedAt - 3 * lag.stop()).toBeLessThan(20_000);
  expect([killed.output(), next.output()]).toEqual(['up\nbegun\n', 'up\nbegun\n']);
});
