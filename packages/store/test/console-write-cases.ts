import { Binary, type Db } from 'mongodb';
import type { OperatorDocument } from '../src/console-documents.ts';
import { insertDocuments } from './document-fixtures.ts';
import type { Case } from './registration-write-cases.ts';

const OPERATOR = 'c'.repeat(24);
const INVITE = 'e'.repeat(24);
const DIGEST = Buffer.alloc(32, 7);
const NOW = new Date();
const LATER = new Date(NOW.getTime() + 3_600_000);

const operator: OperatorDocument & { openId: string } = {
  ...{ _id: OPERATOR, name: 'Ann', nameKey: 'ann', role: 'owner', accounts: 'all' },
  ...{ openId: 'https://id.example ann', passwordHash: 'hash', createdAt: NOW },
};
const entry = {
  ...{ actor: { id: OPERATOR, name: 'Ann' }, action: 'app.create', facts: { id: 'one' } },
  ...{ address: '192.0.2.1', requestId: 'request' },
};

const givenOperator = (db: Db) => insertDocuments(db, 'operators', operator);
const givenSession = (db: Db) =>
  insertDocuments(db, 'sessions', {
    ...{ _id: new Binary(DIGEST), operator: OPERATOR },
    ...{ createdAt: NOW, seenAt: NOW, expiresAt: LATER },
  });
const givenInvite = (fields: object) => (db: Db) =>
  insertDocuments(db, 'invites', {
    ...{ _id: new Binary(DIGEST), id: INVITE, kind: 'setup', role: 'owner', accounts: 'all' },
    ...{ expiresAt: LATER, ...fields },
  });

/** Functions that write the documents of the console. */
export const CONSOLE_WRITE_CASES: Record<string, Case> = {
  'operators.create': {
    call: ({ operators }) =>
      operators.create({ name: 'Ann', role: 'owner', accounts: 'all', first: true }),
  },
  'operators.change': {
    given: givenOperator,
    call: ({ operators }) => operators.change(OPERATOR, { role: 'viewer', disabled: true }),
  },
  'operators.setPassword': {
    given: givenOperator,
    call: ({ operators }) => operators.setPassword(OPERATOR, 'hash', 'other hash'),
  },
  'operators.noteLogin': {
    given: givenOperator,
    call: ({ operators }) => operators.noteLogin(OPERATOR, 'hash'),
  },
  'operators.updateByOpenId': {
    given: givenOperator,
    call: ({ operators }) => operators.updateByOpenId(operator.openId, 'viewer', []),
  },
  'operators.restore': { call: ({ operators }) => operators.restore(operator) },
  'operators.remove': {
    given: givenOperator,
    call: ({ operators }) => operators.remove(OPERATOR),
  },
  'sessions.create': { call: ({ sessions }) => sessions.create(DIGEST, OPERATOR) },
  'sessions.touch': { given: givenSession, call: ({ sessions }) => sessions.touch(DIGEST) },
  'sessions.end': { given: givenSession, call: ({ sessions }) => sessions.end(DIGEST) },
  'sessions.endAll': { given: givenSession, call: ({ sessions }) => sessions.endAll(OPERATOR) },
  'invites.create': {
    call: ({ invites }) =>
      invites.create(DIGEST, { kind: 'setup', role: 'owner', accounts: 'all' }),
  },
  'invites.redeem': { given: givenInvite({}), call: ({ invites }) => invites.redeem(DIGEST) },
  'invites.release': {
    given: givenInvite({ redeemedAt: NOW }),
    call: ({ invites }) => invites.release(DIGEST),
  },
  'invites.revoke': { given: givenInvite({}), call: ({ invites }) => invites.revoke(INVITE) },
  'invites.endMadeBy': {
    given: givenInvite({ by: OPERATOR }),
    call: ({ invites }) => invites.endMadeBy(OPERATOR),
  },
  'invites.endAll': {
    given: givenInvite({ by: OPERATOR }),
    call: ({ invites }) => invites.endAll(OPERATOR),
  },
  'invites.removeSetUps': {
    given: givenInvite({}),
    call: ({ invites }) => invites.removeSetUps(),
  },
  'audit.begin': { call: ({ audit }) => audit.begin(entry) },
  'audit.end': { call: ({ audit }) => audit.end('d'.repeat(24), entry, 'done', {}) },
};
