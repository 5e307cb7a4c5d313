import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { startProcess } from '../../../test/support/child-process.ts';
import { startRedis } from '../../presence/test/start-server.ts';

const WORKER = fileURLToPath(new URL('late-job-worker.ts', import.meta.url));

test('a stop waits for a job that Redis was sending', async () => {
  const redis = await startRedis();
  const worker = startProcess(process.execPath, [WORKER, redis.url]);
  try {
    expect(await worker.exited).toBe(0);
    expect(worker.output()).toBe('first begun\nsecond begun\nsecond done\nstopped\n');
  } finally {
    worker.kill('SIGKILL');
    await worker.exited;
    await redis.stop();
  }
});
