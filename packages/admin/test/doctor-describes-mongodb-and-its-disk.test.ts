import type { MongoMember } from '@carillon/store/topology';
import { describe, expect, test } from '@jest/globals';
import { describeDiskSpace, describeMongodb } from '../src/doctor.ts';

const primary: MongoMember = { name: 'a:27017', state: 'PRIMARY', lagSeconds: 0 };
const secondary: MongoMember = { name: 'b:27017', state: 'SECONDARY', lagSeconds: 1.4 };
const arbiter: MongoMember = { name: 'c:27017', state: 'ARBITER' };

function replicaSet(...members: MongoMember[]) {
  return { kind: 'replica set', name: 'rs0', size: members.length, members } as const;
}

test.each<[string, Parameters<typeof describeMongodb>[0], string]>([
  ['a standalone server', { kind: 'server' }, 'one server, which nothing replaces when it fails'],
  [
    'a set of one member',
    replicaSet(primary),
    'replica set rs0 of one member, which nothing replaces when it fails',
  ],
  [
    'a replica set',
    replicaSet(primary, secondary, { ...secondary, name: 'c:27017' }),
    'replica set rs0 of 3 members, all up, at most 1 s behind the primary',
  ],
  [
    'a set whose states the user may not read',
    { kind: 'replica set', name: 'rs0', size: 3 },
    'replica set rs0 of 3 members; their states need the role clusterMonitor',
  ],
])('%s is described', (_, topology, text) => expect(describeMongodb(topology)).toBe(text));

describe('faults', () => {
  test.each([
    [
      'a member that is unreachable',
      [primary, secondary, { name: 'c:27017', state: '(not reachable/healthy)' }],
      'c:27017 is (not reachable/healthy)',
    ],
    [
      'a member that is far behind',
      [primary, secondary, { name: 'c:27017', state: 'SECONDARY', lagSeconds: 45 }],
      'c:27017 is 45 s behind',
    ],
    [
      'an arbiter among three',
      [primary, secondary, arbiter],
      'only 2 of 3 members hold data: while one of these is unavailable, no push is accepted',
    ],
    [
      'two members',
      [primary, secondary],
      'only 2 of 2 members hold data: while one of these is unavailable, no push is accepted',
    ],
  ])('%s', (_, members, text) => {
    const size = members.length;
    expect(() => describeMongodb(replicaSet(...members))).toThrow(
      `replica set rs0 of ${size} members: ${text}`,
    );
  });

  test('a mongos', () => {
    expect(() => describeMongodb({ kind: 'mongos' })).toThrow(
      'a mongos; Carillon supports one replica set (docs/run/scaling.md)',
    );
  });
});

const GIB = 1_073_741_824;

test.each([
  [0.9, 4],
  [4, 100],
  [9, 2_000],
])('%d of %d GiB free fails the check', (free, total) => {
  expect(() => describeDiskSpace({ free: free * GIB, total: total * GIB })).toThrow(
    'writes will soon',
  );
});

test.each([
  [1.1, 4],
  [6, 100],
  [11, 2_000],
])('%d of %d GiB free passes the check', (free, total) => {
  expect(describeDiskSpace({ free: free * GIB, total: total * GIB })).toMatch(/GiB free$/);
});
