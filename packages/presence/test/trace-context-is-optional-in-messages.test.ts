import { expect, test } from '@jest/globals';
import { decodeGatewayMessage, encodeGatewayMessage } from '../src/gateway-messages.ts';
import { createResultBatch, readReplyEntry } from '../src/replies.ts';

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const OTHER_TRACE = '00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01';
const TO = { reply: 'r', work: 'p1', claim: 'c1' };
const DELIVERY = {
  push: 'p1',
  work: 'p1',
  claim: 'c1',
  expiresAt: 1,
  payload: '{}',
  reply: 'r',
  deadline: 2,
  tokens: ['d1', 'd2'],
  positions: [0, 7],
};

test('a dispatch has one more field in its header, which is absent without a trace', () => {
  const fields = encodeGatewayMessage({ kind: 'deliver', delivery: DELIVERY });
  expect(fields.filter((_, index) => index % 2 === 0)).toEqual([
    ...['deliver', 'payload', 'tokens', 'positions'],
  ]);
  expect(fields[1]).not.toContain('trace');
  const traced = encodeGatewayMessage({
    kind: 'deliver',
    delivery: { ...DELIVERY, trace: TRACE },
  });
  expect([traced[0], ...traced.slice(2)]).toEqual([fields[0], ...fields.slice(2)]);
  expect(JSON.parse(traced[1] ?? '')).toEqual({ ...JSON.parse(fields[1] ?? ''), trace: TRACE });
  expect(decodeGatewayMessage(traced)).toEqual({
    kind: 'deliver',
    delivery: { ...DELIVERY, trace: TRACE },
  });
});

test('a field that only a newer release knows is ignored', () => {
  const [kind = '', header = '', ...rest] = encodeGatewayMessage({
    kind: 'deliver',
    delivery: DELIVERY,
  });
  const newer = JSON.stringify({ ...JSON.parse(header), newer: 1 });
  expect(decodeGatewayMessage([kind, newer, ...rest])).toMatchObject({ delivery: DELIVERY });
});

test('a reply has a fourth word after the three that are read by position', () => {
  const results = createResultBatch();
  results.add({ ...TO, trace: TRACE }, 1, 'acknowledged');
  results.add({ ...TO, trace: TRACE }, 2, 'acknowledged');
  results.add({ ...TO, trace: OTHER_TRACE }, 3, 'acknowledged');
  results.add(TO, 4, 'acknowledged');
  const fields = results.takeAll().get('r') ?? [];
  expect(fields.filter((_, index) => index % 2 === 0)).toEqual([
    `p1 c1 0 ${TRACE}`,
    `p1 c1 0 ${OTHER_TRACE}`,
    'p1 c1 0',
  ]);
  const reply = { work: 'p1', claim: 'c1', result: 'acknowledged' };
  expect(readReplyEntry(fields)).toEqual([
    { ...reply, positions: [1, 2], trace: TRACE },
    { ...reply, positions: [3], trace: OTHER_TRACE },
    { ...reply, positions: [4] },
  ]);
});
