import { Binary } from 'mongodb';
import type { OperatorDocument } from '../src/console-documents.ts';
import { type Call, type Cases, on } from './document-fixtures.ts';

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

const onOperator = (call: Call) => on({ operators: operator }, call);
const onSession = (call: Call) =>
  on(
    {
      sessions: {
        _id: new Binary(DIGEST),
        operator: OPERATOR,
        createdAt: NOW,
        seenAt: NOW,
        expiresAt: LATER,
      },
    },
    call,
  );
const onInvite = (fields: object, call: Call) =>
  on(
    {
      invites: {
        ...{ _id: new Binary(DIGEST), id: INVITE, kind: 'setup', role: 'owner', accounts: 'all' },
        ...{ expiresAt: LATER, ...fields },
      },
    },
    call,
  );

const TOKEN = 'f'.repeat(24);
const onToken = (call: Call) =>
  on(
    {
      operatorTokens: {
        ...{ _id: TOKEN, digest: new Binary(DIGEST), name: 'deploy', role: 'admin' },
        ...{ accounts: 'all', by: OPERATOR, createdAt: NOW, expiresAt: LATER },
      },
    },
    call,
  );

/** Functions that write the documents of the console. */
export const CONSOLE_WRITE_CASES: Cases = {
  'operators.create': ({ operators }) =>
    operators.create({ name: 'Ann', role: 'owner', accounts: 'all', first: true }),
  'operators.change': onOperator(({ operators }) =>
    operators.change(OPERATOR, { role: 'viewer', disabled: true }),
  ),
  'operators.setPassword': onOperator(({ operators }) =>
    operators.setPassword(OPERATOR, 'hash', 'other hash'),
  ),
  'operators.noteLogin': onOperator(({ operators }) => operators.noteLogin(OPERATOR, 'hash')),
  'operators.updateByOpenId': onOperator(({ operators }) =>
    operators.updateByOpenId(operator.openId, 'viewer', []),
  ),
  'operators.restore': ({ operators }) => operators.restore(operator),
  'operators.remove': onOperator(({ operators }) => operators.remove(OPERATOR)),
  'sessions.create': ({ sessions }) => sessions.create(DIGEST, OPERATOR),
  'sessions.touch': onSession(({ sessions }) => sessions.touch(DIGEST)),
  'sessions.end': onSession(({ sessions }) => sessions.end(DIGEST)),
  'sessions.endAll': onSession(({ sessions }) => sessions.endAll(OPERATOR)),
  'invites.create': ({ invites }) =>
    invites.create(DIGEST, { kind: 'setup', role: 'owner', accounts: 'all' }),
  'invites.redeem': onInvite({}, ({ invites }) => invites.redeem(DIGEST)),
  'invites.release': onInvite({ redeemedAt: NOW }, ({ invites }) => invites.release(DIGEST)),
  'invites.revoke': onInvite({}, ({ invites }) => invites.revoke(INVITE)),
  'invites.endMadeBy': onInvite({ by: OPERATOR }, ({ invites }) => invites.endMadeBy(OPERATOR)),
  'invites.endAll': onInvite({ by: OPERATOR }, ({ invites }) => invites.endAll(OPERATOR)),
  'invites.removeSetUps': onInvite({}, ({ invites }) => invites.removeSetUps()),
  'operatorTokens.create': ({ operatorTokens }) =>
    operatorTokens.create(DIGEST, { name: 'deploy', role: 'admin', accounts: 'all' }, 86_400_000),
  'operatorTokens.touch': onToken(({ operatorTokens }) => operatorTokens.touch(TOKEN)),
  'operatorTokens.revoke': onToken(({ operatorTokens }) => operatorTokens.revoke(TOKEN)),
  'operatorTokens.endMadeBy': onToken(({ operatorTokens }) => operatorTokens.endMadeBy(OPERATOR)),
  'audit.begin': ({ audit }) => audit.begin(entry),
  'audit.end': ({ audit }) => audit.end('d'.repeat(24), entry, 'done', {}),
};
