import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { apns } from '../src/channels/apns/client.ts';
import { fcm } from '../src/channels/fcm/client.ts';
import { createWebPush } from '../src/channels/web-push/client.ts';
import type { Address, ProviderClient } from '../src/deliver/provider.ts';
import { createAppleAddress } from './apns/addresses.ts';
import { createPush } from './create-push.ts';
import { type ProviderSandbox, startProviderSandbox } from './provider-sandbox.ts';
import { createBrowser } from './web-push/browser.ts';
import { type PushService, startPushService } from './web-push/push-service.ts';
import { createSecret } from './web-push/pushes.ts';

let sandbox: ProviderSandbox;
let service: PushService;
beforeAll(async () => {
  sandbox = await startProviderSandbox();
  service = await startPushService();
});
afterAll(async () => {
  await service?.stop();
  await sandbox?.stop();
});

interface ChannelUnderTest {
  client: ProviderClient;
  address: Address;
  /** Counts the received requests. */
  received(): Promise<number>;
}

function createWebPushClient({ host, ca }: { host: string; ca: string }): ProviderClient {
  return createWebPush({ hosts: [host], ca }).connect(createSecret());
}

const CHANNELS: Record<string, () => Promise<ChannelUnderTest>> = {
  APNs: async () => ({
    client: apns.connect(sandbox.apnsToken),
    address: createAppleAddress('device', sandbox.bundle),
    received: async () => (await sandbox.received('apns')).length,
  }),
  FCM: async () => ({
    client: fcm.connect(sandbox.fcm),
    address: { channel: 'fcm', address: 'device', since: new Date() } as Address,
    received: async () => (await sandbox.received('fcm')).length,
  }),
  'Web Push over HTTP/2': async () => {
    const { endpoint, key, auth } = await sandbox.subscribe();
    const keys = { p256dh: key, auth, since: new Date() };
    return {
      client: createWebPushClient(sandbox.webPush),
      address: { channel: 'web-push', address: endpoint, ...keys },
      received: async () => (await sandbox.received('web-push')).length,
    };
  },
  'Web Push over HTTP/1.1': async () => ({
    client: createWebPushClient(service),
    address: createBrowser().address(`https://${service.host}/abc`),
    received: async () => service.received.length,
  }),
};

test.each(Object.entries(CHANNELS))(
  '%s withholds a request that may not be sent once it has a connection',
  async (_, connect) => {
    const { client, address, received } = await connect();
    let maySend = true;
    const send = client.prepare(createPush(), () => maySend);
    const attempt = send(address);
    maySend = false;
    expect(await attempt).toEqual({ kind: 'withheld' });
    // Over the connection that is open now.
    expect(await send(address)).toEqual({ kind: 'withheld' });
    maySend = true;
    expect(await send(address)).toEqual({ kind: 'sent' });
    expect(await received()).toBe(1);
    await client.close();
  },
);
