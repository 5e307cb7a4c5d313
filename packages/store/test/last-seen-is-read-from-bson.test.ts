import { expect, test } from '@jest/globals';
import { BSON } from 'mongodb';
import { parseLastSeen } from '../src/last-seen.ts';

const parse = (device: object) => parseLastSeen(Buffer.from(BSON.serialize(device)));
const AT = new Date('2026-11-23T12:34:56.789Z');

test.each([AT, new Date(0), new Date(-1), new Date('9999-12-31T23:59:59.999Z')])(
  'a device that was last seen at %p',
  (lastActiveAt) => {
    const expected = { token: 'd1', at: lastActiveAt.getTime() };
    expect(parse({ _id: 'd1', lastActiveAt })).toEqual({
      ...expected,
      uninstalled: false,
      unsubscribed: false,
    });
  },
);

test('flags in any order, and an id of any characters', () => {
  const device = { unsubscribed: true, lastActiveAt: AT, uninstalled: false, _id: 'naïve "✓" ' };
  expect(parse(device)).toEqual({
    token: 'naïve "✓" ',
    at: AT.getTime(),
    uninstalled: false,
    unsubscribed: true,
  });
});

test('a document of another form is read by the driver', () => {
  const device = { _id: 'd1', extra: { a: [1] }, lastActiveAt: AT, uninstalled: true };
  expect(parse(device)).toEqual({
    token: 'd1',
    at: AT.getTime(),
    uninstalled: true,
    unsubscribed: false,
  });
});
