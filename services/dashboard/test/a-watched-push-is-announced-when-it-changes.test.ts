import { OUTCOMES } from '@carillon/core/outcomes';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  acknowledge,
  deliver,
  insertPush,
  newTokens,
  SHAPES,
} from '../../../packages/store/test/store-under-test.ts';
import { until } from '../../../test/support/until.ts';
import { createPushWatch } from '../src/live/push-watch.ts';
import { ALL_ACCOUNTS_VIEWER, type LiveUnderTest, startLive } from './live-under-test.ts';

const APP = 'a'.repeat(24);
let live: LiveUnderTest;
beforeAll(async () => {
  live = await startLive();
  // The app of the store's test pushes.
  const app = { _id: APP, name: 'app', account: 'account-1', createdAt: new Date() };
  await live.database.db.collection<{ _id: string }>('apps').insertOne(app);
});
afterAll(() => live.stop());

test.each(SHAPES)('of its start, its settlement and a late receipt: %s', async (shape) => {
  const [connected = '', offline = ''] = newTokens(2);
  const push = await insertPush(live.database, [connected, offline], { shape });
  const viewer = await live.view({ push: push.id });
  expect(await viewer.next('push')).toEqual({ id: push.id });
  const settled = viewer.next('push');
  await deliver(live.database.store, push, { [offline]: OUTCOMES.inbox });
  expect(await settled).toEqual({ id: push.id });
  await viewer.next('overview');
  const received = viewer.next('push');
  await acknowledge(live.database, push, offline);
  expect(await received).toEqual({ id: push.id });
  viewer.leave();
});

test('a push of another account is not watched, like one that does not exist', async () => {
  const push = await insertPush(live.database, newTokens(1));
  const mine = { ...ALL_ACCOUNTS_VIEWER, id: 'mine', accounts: ['account-1'] };
  const foreign = { ...ALL_ACCOUNTS_VIEWER, id: 'foreign', accounts: ['account-2'] };
  const [owner, other] = await Promise.all([
    live.view({ push: [push.id, 'f'.repeat(24)] }, mine),
    live.view({ push: push.id }, foreign),
  ]);
  expect(await owner.next('push')).toEqual({ id: push.id });
  const changed = owner.next('push');
  await deliver(live.database.store, push, {});
  expect(await changed).toEqual({ id: push.id });
  await other.next('overview');
  expect(other.events.filter(({ event }) => event === 'push')).toEqual([]);
  owner.leave();
  other.leave();
});

test('all pushes of a page are watched', async () => {
  const pushes = await Promise.all(
    Array.from({ length: 50 }, () => insertPush(live.database, newTokens(1))),
  );
  const viewer = await live.view({ push: pushes.map(({ id }) => id) });
  const isAnnounced = ({ id }: { id: string }, times: number) =>
    viewer.events.filter(({ data }) => JSON.stringify(data) === JSON.stringify({ id })).length >=
    times;
  await until(() => pushes.every((push) => isAnnounced(push, 1)), {
    what: 'each push is announced once',
  });
  const [last] = pushes.slice(-1);
  if (last === undefined) throw new Error('there is no push');
  await deliver(live.database.store, last, {});
  await until(() => isAnnounced(last, 2), { what: 'the change of the last push is announced' });
  viewer.leave();
});

test('of more than 200 pushes, each is read in turn', async () => {
  const pushes = await Promise.all(
    Array.from({ length: 210 }, () => insertPush(live.database, newTokens(1))),
  );
  const ids = pushes.map(({ id }) => id);
  const { pushProgress } = live.database.store;
  const sizes: number[] = [];
  const watch = createPushWatch(
    {
      readMarks(some) {
        sizes.push(some.length);
        return pushProgress.readMarks(some);
      },
    },
    { intervalMs: 1, rareIntervalMs: 1 },
  );
  const changed: string[] = [];
  const leave = watch.watch(ids, (id) => changed.push(id));
  await until(() => changed.length === ids.length, { what: 'each push is announced once' });
  leave();
  expect(Math.max(...sizes)).toBe(200);
  expect(changed.toSorted()).toEqual(ids.toSorted());
});

test('at most a hundred pushes can be watched, and only by id', async () => {
  const ids = Array.from({ length: 101 }, (_, n) => `${n}`.padStart(24, '0'));
  await expect(live.view({ push: ids })).rejects.toThrow('at most 100 push ids');
  await expect(live.view({ push: 'x' })).rejects.toThrow('at most 100 push ids');
});
