import { parsePushHosts } from '../../packages/core/src/web-push-endpoint.ts';
import { createWebPush } from '../../services/delivery-worker/src/channels/web-push/client.ts';
import { PUSH, sendInBatches } from './load.ts';
import { serveSenderCommands } from './sender.ts';

serveSenderCommands(({ host, ports, ca, webPush: secret, browsers }) => {
  const channel = createWebPush({ hosts: parsePushHosts([`${host}:${ports.webPush}`]), ca });
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
      () => client.prepare(PUSH, () => true),
      (index) => addresses[index % addresses.length] ?? rejectCall(),
    );
});

function rejectCall(): never {
  throw new Error('the scene has no browsers');
}
