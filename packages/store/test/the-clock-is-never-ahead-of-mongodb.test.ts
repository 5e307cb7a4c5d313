import { afterEach, expect, test } from '@jest/globals';
import { MongoClient } from 'mongodb';
import { startTcpProxy } from '../../../test/support/tcp-proxy.ts';
import { createClock } from '../src/clock.ts';
import { useStore } from './use-store.ts';

const DELAY_MS = 200;

const database = useStore();
const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

test.each(['delayRequests', 'delayResponses'] as const)(
  'whatever the network does (%s)',
  async (delay) => {
    const uri = new URL(database.uri);
    const proxy = await startTcpProxy(Number(uri.port));
    stops.push(proxy.stop);
    const through = `mongodb://127.0.0.1:${proxy.port}/?directConnection=true`;
    const client = await new MongoClient(through).connect();
    stops.push(() => client.close());
    proxy[delay](DELAY_MS);
    const clock = await createClock(client.db());
    stops.push(clock.stop);
    const now = clock.now();
    const { localTime } = await database.db.admin().command({ hello: 1 });
    expect(now).toBeLessThanOrEqual(localTime.getTime() + 1);
    expect(now).toBeGreaterThan(localTime.getTime() - 10 * DELAY_MS);
  },
);
