import { expect, test } from '@jest/globals';
import { createConsoleAddress } from '../src/http/address.ts';

test.each([
  // CONSOLE_URL, the request's Host, its Origin, whether it is the console's own
  [undefined, '192.0.2.1:4010', 'http://192.0.2.1:4010', true],
  [undefined, '192.0.2.1:4010', 'http://192.0.2.1:4011', false],
  [undefined, '192.0.2.1:4010', 'https://192.0.2.1:4010', false],
  [undefined, '192.0.2.1:4010', undefined, false],
  ['http://push.example', 'push.example', 'http://push.example', true],
  ['https://push.example', 'push.example', 'https://push.example', true],
  ['https://push.example', 'push.example', 'http://push.example', false],
  ['https://push.example', 'PUSH.example', 'http://push.example', false],
  ['https://push.example', '192.0.2.1:4010', 'http://192.0.2.1:4010', true],
  ['https://push.example', 'push.example', 'null', false],
])('with CONSOLE_URL %p, host %p and origin %p: %p', (url, host, origin, isOwn) => {
  expect(createConsoleAddress(url).isOwnOrigin(origin, host)).toBe(isOwn);
});
