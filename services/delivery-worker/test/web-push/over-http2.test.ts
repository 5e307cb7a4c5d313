import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createWebPush } from '../../src/channels/web-push/client.ts';
import type { Address, Attempt, ProviderClient } from '../../src/deliver/provider.ts';
import { type ProviderSandbox, startProviderSandbox } from '../provider-sandbox.ts';
import { createPush, createSecret } from './pushes.ts';

const DEADLINE_MS = 1_000;
const SENT: Attempt = { kind: 'sent' };
const LINE = expect.objectContaining({ kind: 'retry', scope: 'line' });
const RECIPIENT = expect.objectContaining({ kind: 'retry', scope: 'recipient' });

let sandbox: ProviderSandbox;
let client: ProviderClient;

beforeAll(async () => {
  sandbox = await startProviderSandbox();
});
beforeEach(() => {
  const { host, ca } = sandbox.webPush;
  const channel = createWebPush({ hosts: [host], ca, deadlineMs: DEADLINE_MS });
  client = channel.connect(createSecret());
});
afterEach(async () => {
  await client.close();
  await sandbox.reset();
});
afterAll(() => sandbox.stop());

async function browser(): Promise<Address> {
  const { endpoint: address, key: p256dh, auth } = await sandbox.subscribe();
  return { channel: 'web-push', address, p256dh, auth, since: new Date() };
}

const tokenOf = ({ address }: Address): string => address.split('/').at(-1) ?? '';

/** One push to so many browsers, all at once. */
async function sendToMany(n: number): Promise<Attempt[]> {
  const send = client.begin(createPush());
  const browsers = await Promise.all(Array.from({ length: n }, browser));
  return Promise.all(browsers.map(send));
}

test('a window of pushes goes over one link, and each can be read', async () => {
  for (let round = 0; round < 3; round += 1) {
    expect(await sendToMany(50)).toEqual(Array(50).fill(SENT));
  }
  expect(await sandbox.connections('web-push')).toBe(1);
  const received = await sandbox.received('web-push');
  expect(received.map(({ payload }) => payload)).not.toContain(null);
});

test('a service that lets only a few through at a time gets all of them', async () => {
  await sandbox.conduct('web-push', { streamLimit: 5 });
  expect(await sendToMany(50)).toEqual(Array(50).fill(SENT));
});

test('a service that says good-bye again and again loses none and gets none twice', async () => {
  await sandbox.conduct('web-push', { goawayEvery: 7 });
  for (let round = 0; round < 5; round += 1) {
    const attempts = await sendToMany(20);
    expect(attempts.filter(({ kind }) => kind !== 'sent' && kind !== 'retry')).toEqual([]);
    const sent = attempts.filter(({ kind }) => kind === 'sent').length;
    expect(sent).toBeGreaterThanOrEqual(18);
  }
  expect(await sandbox.doubles()).toBe(0);
});

test('a link that is cut puts off what it carried, and the next push opens another', async () => {
  expect(await sendToMany(1)).toEqual([SENT]);
  await sandbox.conduct('web-push', { dropEvery: 1 });
  expect(await sendToMany(3)).toEqual([LINE, LINE, LINE]);
  await sandbox.reset();
  expect(await sendToMany(3)).toEqual([SENT, SENT, SENT]);
});

test('a service that answers nothing is not waited for, nor its link used again', async () => {
  await sandbox.conduct('web-push', { blackHole: true });
  const startedAt = performance.now();
  expect(await sendToMany(3)).toEqual([LINE, LINE, LINE]);
  expect(performance.now() - startedAt).toBeLessThan(3 * DEADLINE_MS);
  await sandbox.reset();
  expect(await sendToMany(1)).toEqual([SENT]);
  expect(await sandbox.connections('web-push')).toBe(1);
});

test('a service that takes no connection puts all off', async () => {
  await sandbox.conduct('web-push', { refuse: true });
  expect(await sendToMany(3)).toEqual([LINE, LINE, LINE]);
});

describe('one request that', () => {
  test.each([
    ['is refused unseen is this recipient’s', { do: 'refuse-stream' }, RECIPIENT],
    ['is reset is the line’s', { do: 'reset' }, LINE],
    ['hangs is the line’s', { do: 'hang' }, LINE],
    ['is answered without an end is sent', { do: 'flood' }, SENT],
    ['is answered a byte at a time is sent', { do: 'drip' }, SENT],
    [
      'is pointed elsewhere is followed nowhere',
      { do: 'redirect' },
      expect.objectContaining({ reason: 'rejected-by-provider' }),
    ],
  ])('%s', async (_, answer, attempt) => {
    const address = await browser();
    await sandbox.script('web-push', tokenOf(address), answer);
    expect(await client.begin(createPush())(address)).toEqual(attempt);
    expect(await sandbox.received('web-push')).toHaveLength(1);
  });
});
