import { connectRedis, type Redis } from '@carillon/presence/redis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { startRedis } from '../../presence/test/start-server.ts';
import { decodeEntry, encodeEntry, type JoinedContents } from '../src/joined-push.ts';
import { createProducers, type Producers } from '../src/producers.ts';

const OPEN_KEY = 'send:joinable';
const ENTRIES_KEY = 'send:joined';
const CONTENTS: JoinedContents = {
  ...{ claim: 'c1', app: 'a1', token: 'd1', data: '{"text":"two\\nlines  and grüße","n":1e400}' },
  ...{ acceptedAt: 1_000, expiresAt: 61_000, sendUntil: 61_000 },
  options: { collapseKey: 'k' },
  ...{ collapse: 'hash', trace: '00-1-2-01', notify: true },
};
const SMALL: JoinedContents = { ...CONTENTS };
for (const name of ['options', 'collapse', 'trace', 'notify'] as const) delete SMALL[name];

let server: Awaited<ReturnType<typeof startRedis>>;
let redis: Redis;
let producers: Producers;
beforeAll(async () => {
  server = await startRedis();
  redis = await connectRedis(server);
});
afterAll(async () => {
  redis?.disconnect();
  await server?.stop();
});
beforeEach(async () => {
  await redis.flushall();
  producers = createProducers(server, () => undefined);
  await until(async () => (await producers.countDue('send').catch(() => -1)) === 0);
  // The first push after a pause does not check for an open job.
  await producers.sendEmbedded('first');
  await redis.del('bull:send:wait');
});
afterEach(() => producers.close());

test('an entry holds pushes with and without contents, unchanged', () => {
  const pushes = [
    { id: 'p1', contents: CONTENTS },
    { id: 'p2', contents: undefined },
    { id: 'p3', contents: SMALL },
  ];
  expect(decodeEntry(encodeEntry(pushes))).toEqual(pushes);
});

test.each<[string, string, unknown[]]>([
  ['no id', 'a.b', []],
  ['nothing', '', []],
  ['a huge id', 'p'.repeat(65), []],
  ['contents that are no JSON', 'p1 {', [{ id: 'p1' }]],
  [
    'contents without a claim',
    `p1 ${JSON.stringify({ ...SMALL, claim: undefined })}`,
    [{ id: 'p1' }],
  ],
  ['a time that is a text', `p1 ${JSON.stringify({ ...SMALL, acceptedAt: '1' })}`, [{ id: 'p1' }]],
  ['contents behind other spaces', `p1  ${JSON.stringify(SMALL)}`, [{ id: 'p1', contents: SMALL }]],
])('an entry with %s is read as far as it is valid', (_what, entry, expected) => {
  expect(decodeEntry(entry)).toEqual(expected);
});

test('a push joins an open job with its contents', async () => {
  await redis.set(OPEN_KEY, 1);
  expect(await producers.sendEmbedded('p1', SMALL)).toBe(true);
  const entries = await redis.lrange(ENTRIES_KEY, 0, -1);
  expect(entries.map(decodeEntry)).toEqual([[{ id: 'p1', contents: SMALL }]]);
  expect(producers.hasOpenJob()).toBe(true);
});

test('without an open job, a push with contents is not enqueued, and those beside it share a job', async () => {
  const sent = await Promise.all([
    producers.sendEmbedded('p1', SMALL),
    producers.sendEmbedded('p2'),
    producers.sendEmbedded('p3', SMALL),
    producers.sendEmbedded('p4'),
  ]);
  expect(sent).toEqual([false, true, false, true]);
  const [job] = await redis.keys('bull:send:send-p*');
  expect(JSON.parse((await redis.hget(job ?? '', 'data')) ?? 'null')).toEqual({
    lone: ['p2', 'p4'],
  });
  expect(producers.hasOpenJob()).toBe(false);
});

test('a push is expected to join only while pushes join and few entries wait', async () => {
  expect(producers.hasOpenJob()).toBe(false);
  await redis.set(OPEN_KEY, 1);
  await redis.rpush(ENTRIES_KEY, ...Array.from({ length: 8 }, (_, n) => `waits-${n}`));
  await producers.sendEmbedded('ninth');
  expect(producers.hasOpenJob()).toBe(true);
  await producers.sendEmbedded('tenth');
  expect(producers.hasOpenJob()).toBe(false);
  await redis.del(ENTRIES_KEY);
  await producers.sendEmbedded('first-again');
  expect(producers.hasOpenJob()).toBe(true);
  const joinedAt = performance.now();
  await until(() => performance.now() - joinedAt > 500);
  expect(producers.hasOpenJob()).toBe(false);
});

test('while Redis fails, a push with contents counts as enqueued, and none is expected to join', async () => {
  await redis.set(OPEN_KEY, 1);
  await redis.del(ENTRIES_KEY);
  await redis.set(ENTRIES_KEY, 'no list');
  expect(await producers.sendEmbedded('p1', SMALL)).toBe(true);
  expect(producers.hasOpenJob()).toBe(false);
});

test('pushes join although the process closes its producers at once', async () => {
  await redis.set(OPEN_KEY, 1);
  // More than one call takes: the second begins after the close.
  const ids = Array.from({ length: 60 }, (_, n) => `p${n}`);
  const sent = ids.map((id) => producers.sendEmbedded(id, SMALL));
  await producers.close();
  expect(await Promise.all(sent)).toEqual(ids.map(() => true));
  const entries = await redis.lrange(ENTRIES_KEY, 0, -1);
  expect(entries.flatMap(decodeEntry)).toEqual(ids.map((id) => ({ id, contents: SMALL })));
});
