import { processCounts } from '@carillon/core/process-counts';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Redis as Server } from 'ioredis';
import { until } from '../../../test/support/until.ts';
import { connectRedis, type Redis } from '../src/redis.ts';
import { startRedis } from './start-server.ts';

const UNKNOWN_SCRIPT = '0'.repeat(40);

let server: Awaited<ReturnType<typeof startRedis>>;
let redis: Redis;
beforeAll(async () => {
  server = await startRedis();
  redis = await connectRedis(server);
  await redis.set('text', 'a');
});
afterAll(async () => {
  redis?.disconnect();
  await server?.stop();
});

async function countDuring(call: () => Promise<unknown>): Promise<number> {
  const before = processCounts.redisCommandFailures;
  await call().catch(() => undefined);
  return processCounts.redisCommandFailures - before;
}

test('an error reply is counted', async () => {
  expect(await countDuring(() => redis.incr('text'))).toBe(1);
});

test('an error reply to each command of a pipeline is counted', async () => {
  const pipeline = () => redis.pipeline().incr('text').get('text').incr('text').exec();
  expect(await countDuring(pipeline)).toBe(2);
});

test('an error reply over a copy of the connection is counted', async () => {
  if (!(redis instanceof Server)) throw new Error('the connection is of a cluster');
  const copy = redis.duplicate();
  await until(async () => copy.status === 'ready');
  expect(await countDuring(() => copy.incr('text'))).toBe(1);
  copy.disconnect();
});

test('commands that succeed, and a script that is not loaded yet, are not counted', async () => {
  const calls = async () => {
    expect(await redis.get('text')).toBe('a');
    await redis.evalsha(UNKNOWN_SCRIPT, 0);
  };
  expect(await countDuring(calls)).toBe(0);
});

test('a command without a connection is counted once', async () => {
  const away = await connectRedis(server);
  away.disconnect();
  expect(await countDuring(() => away.get('text'))).toBe(1);
});
