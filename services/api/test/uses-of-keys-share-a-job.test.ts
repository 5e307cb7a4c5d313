import { type BoardQueues, openBoardQueues } from '@carillon/queue/board-queues';
import { jobSchemas } from '@carillon/queue/jobs';
import { createProducers, type Producers } from '@carillon/queue/producers';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import { createKeyUseRecorder } from '../src/http/key-uses.ts';

let redis: Awaited<ReturnType<typeof startRedis>>;
let producers: Producers;
let queues: BoardQueues;
beforeAll(async () => {
  redis = await startRedis();
  producers = createProducers(redis, () => undefined);
  queues = await openBoardQueues(redis, () => undefined);
});
afterAll(async () => {
  await queues?.close();
  await producers?.close();
  await redis?.stop();
});

test('however often keys are used, one job reports each of them once a minute', async () => {
  const recorder = createKeyUseRecorder(producers, { now: () => 1_000.4 });
  for (let use = 0; use < 1_000; use += 1) recorder.record(use % 2 === 0 ? 'key1' : 'key2');
  await recorder.stop();
  recorder.record('key1');
  await recorder.stop();
  const presence = queues.queues.find(({ name }) => name === 'presence');
  const jobs = (await presence?.getWaiting()) ?? [];
  expect(jobs.map(({ data }) => jobSchemas.presence.parse(data))).toEqual([
    {
      events: [],
      keys: [
        ['key1', 1_000],
        ['key2', 1_000],
      ],
    },
  ]);
});
