import { expect, test } from '@jest/globals';
import { type ComposeForm, compact, composeBody, EMPTY_FORM } from '../src/lib/compose-body.ts';

const NOW = Date.UTC(2026, 0, 1);

function compose(form: Partial<ComposeForm>) {
  return composeBody({ ...EMPTY_FORM, to: 'token', ...form }, NOW);
}

test('large numbers and texts of the payload stay as they were typed', () => {
  const composed = compose({ data: '{ "id": 12345678901234567890, "text": " a  \\" b " }' });
  expect(composed).toEqual({
    ok: true,
    body: '{"to":"token","data":{"id":12345678901234567890,"text":" a  \\" b "}}',
  });
  expect(compact('{ "a" : [ 1.0 , 2 ] }')).toBe('{"a":[1.0,2]}');
});

test('several recipients are a list without duplicates', () => {
  const composed = compose({ to: 'one, two\n/topics/news one', data: '{}' });
  expect(composed).toEqual({
    ok: true,
    body: '{"to":["one","two","/topics/news"],"data":{}}',
  });
});

test('options are sent only when they are given', () => {
  const composed = compose({ data: '{}', title: 'T', collapseKey: 'k', timeToLive: '60' });
  expect(JSON.parse(composed.ok ? composed.body : '')).toEqual({
    to: 'token',
    data: {},
    notification: { title: 'T' },
    collapse_key: 'k',
    time_to_live: 60,
  });
});

test.each([
  ['to', { to: '' }],
  ['to', { to: 'no token!' }],
  ['data', { data: '[]' }],
  ['data', { data: '{' }],
  ['collapseKey', { collapseKey: 'x'.repeat(33) }],
  ['timeToLive', { timeToLive: '1.5' }],
  ['schedule', { schedule: '2020-01-01T00:00' }],
] as const)('a wrong field is named: %s of %j', (field, form) => {
  const composed = compose(form);
  expect(composed.ok ? [] : Object.keys(composed.errors)).toEqual([field]);
});
