import { createWebPush } from '../../services/delivery-worker/src/channels/web-push/client.ts';
import { PUSH, sendInBatches } from './load.ts';
import { obeyAsSender } from './sender.ts';

obeyAsSender(({ host, ports, ca, webPush: secret, browsers }) => {
  const channel = createWebPush({ hosts: [`${host}:${ports.webPush}`], ca });
  const client = channel.connect(secret);
  const addresses = browsers.map(({ endpoint, p256dh, auth }) => ({
    channel: 'web-push' as const,
    address: endpoint,
    p256dh,
    auth,
    since: new Date(),
  }));
  return (count) =>
    sendInBatches(
      count,
      channel.window,
      () => client.begin(PUSH),
      (index) => addresses[index % addresses.length] ?? never(),
    );
});

function never(): never {
  throw new Error('the scene has no browsers');
}
