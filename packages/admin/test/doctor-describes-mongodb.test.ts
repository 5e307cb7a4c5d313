import type { MongoMember } from '@carillon/store/topology';
import { describe, expect, test } from '@jest/globals';
import { describeMongodb } from '../src/doctor.ts';

const primary: MongoMember = { name: 'a:27017', state: 'PRIMARY', lagSeconds: 0 };
const secondary: MongoMember = { name: 'b:27017', state: 'SECONDARY', lagSeconds: 1.4 };
const arbiter: MongoMember = { name: 'c:27017', state: 'ARBITER' };

function replicaSet(...members: MongoMember[]) {
  return { kind: 'replica set', name: 'rs0', size: members.length, members } as const;
}

test('a standalone server and a set of one member are described as without replacement', () => {
  expect(describeMongodb({ kind: 'server' })).toBe(
    'one server, which nothing replaces when it fails',
  );
  expect(describeMongodb(replicaSet(primary))).toBe(
    'replica set rs0 of one member, which nothing replaces when it fails',
  );
});

test('a replica set is described as up, with the lag of its members', () => {
  expect(describeMongodb(replicaSet(primary, secondary, { ...secondary, name: 'c:27017' }))).toBe(
    'replica set rs0 of 3 members, all up, at most 1 s behind the primary',
  );
});

test('states that the user may not read are described with the role they need', () => {
  expect(describeMongodb({ kind: 'replica set', name: 'rs0', size: 3 })).toBe(
    'replica set rs0 of 3 members; their states need the role clusterMonitor',
  );
});

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
