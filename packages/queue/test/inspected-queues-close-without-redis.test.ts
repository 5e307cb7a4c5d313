import { expect, test } from '@jest/globals';
import { startRedis } from '../../presence/test/start-server.ts';
import { openBoardQueues } from '../src/board-queues.ts';

test('queues opened for an operator close while Redis is unavailable', async () => {
  const redis = await startRedis();
  const board = await openBoardQueues(redis, () => undefined);
  expect(await Promise.all(board.queues.map((queue) => queue.getWaitingCount()))).toEqual(
    board.queues.map(() => 0),
  );
  await redis.stop();
  await board.close();
  expect(board.isReady()).toBe(false);
});
