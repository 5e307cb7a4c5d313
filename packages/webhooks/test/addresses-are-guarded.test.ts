import type { LookupFunction } from 'node:net';
import { NOT_ALLOWED } from '@carillon/core/public-address';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { parseAllowedHosts } from '../src/allowed-hosts.ts';
import { createWebhookClient } from '../src/client.ts';
import { newWebhookSecret } from '../src/signature.ts';
import { type Receiver, startReceiver } from './receiver.ts';

let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver(newWebhookSecret());
});
afterAll(() => receiver?.stop());

/** Every name resolves to the private network. */
const toLoopback: LookupFunction = (_hostname, _options, callback) =>
  callback(null, [{ address: '127.0.0.1', family: 4 }]);

async function post(address: string, hosts = '') {
  const client = createWebhookClient({
    ...{ hosts: parseAllowedHosts(hosts), deadlineMs: 400, dnsLookup: toLoopback },
  });
  const response = await client.post(address.replace('PORT', `${receiver.port}`), {}, '{}');
  client.close();
  return response;
}

describe('without WEBHOOK_HOSTS', () => {
  test.each([
    'http://127.0.0.1:PORT/x',
    'http://example.org:PORT/x',
    'https://localhost:PORT/x',
    'https://127.0.0.1:PORT/x',
    'https://127.1:PORT/x',
    'https://0x7f.1:PORT/x',
    'https://2130706433:PORT/x',
    'https://0177.0.0.1:PORT/x',
    'https://[::1]:PORT/x',
    'https://[::ffff:127.0.0.1]:PORT/x',
    'https://[::ffff:7f00:1]:PORT/x',
    'https://169.254.169.254/latest/meta-data',
    'https://10.0.0.1/x',
    'https://user@example.org:PORT/x',
    'https://:password@example.org:PORT/x',
    'https://rebound.example:PORT/x',
    'https://0.0.0.0:PORT/x',
    'https://[::]:PORT/x',
    'https://[64:ff9b::7f00:1]:PORT/x',
    'https://[fe80::1]/x',
    'https://[fd00::1]/x',
    'https://192.168.1.1/x',
    'https://172.16.0.1/x',
    'https://100.64.0.1/x',
    'https://evil.example\\@example.org/x',
    'https://example.org./x',
    'wss://example.org:PORT/x',
    'ftp://example.org/x',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'not a url',
    '',
  ])('%p is never connected to', async (address) => {
    expect(await post(address)).toEqual({ error: NOT_ALLOWED });
    expect(receiver.connections()).toBe(0);
  });
});

test.each([
  ['a name', 'hooks.internal', 'http://hooks.internal:PORT/x'],
  ['an address', '127.0.0.1', 'http://127.0.0.1:PORT/x'],
  ['a network, for a name in it', '127.0.0.0/8', 'http://any.internal:PORT/x'],
])('WEBHOOK_HOSTS allows %s', async (_what, hosts, address) => {
  expect(await post(address, hosts)).toEqual({ status: 200 });
});

test('WEBHOOK_HOSTS allows nothing else', async () => {
  const before = receiver.connections();
  expect(await post('http://other.internal:PORT/x', 'hooks.internal,10.0.0.0/8')).toEqual({
    error: NOT_ALLOWED,
  });
  expect(receiver.connections()).toBe(before);
});

test('a wrong network is refused', () => {
  expect(() => parseAllowedHosts('hooks.internal/8')).toThrow('hooks.internal/8 is no network');
});
