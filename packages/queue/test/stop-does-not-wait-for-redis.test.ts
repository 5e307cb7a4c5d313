import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { startProcess } from '../../../test/support/child-process.ts';
import { until } from '../../../test/support/until.ts';
import { startRedis } from '../../presence/test/start-server.ts';

const WORKER = fileURLToPath(new URL('stopping-worker.ts', import.meta.url));

test.each(['there', 'killed', 'frozen'])(
  'a stop waits for the job in progress, and no longer for Redis, which is %s',
  async (state) => {
    const redis = await startRedis();
    const worker = startProcess(process.execPath, [WORKER, redis.url]);
    try {
      await until(() => worker.output().includes('begun'), { timeoutMs: 20_000 });
      if (state === 'killed') await redis.stop();
      if (state === 'frozen') process.kill(redis.pid, 'SIGSTOP');
      worker.kill('SIGTERM');
      expect(await worker.exited).toBe(0);
      expect(worker.output()).toBe('begun\ndone\nstopped\n');
    } finally {
      worker.kill('SIGKILL');
      await worker.exited;
      await redis.stop();
    }
  },
);
