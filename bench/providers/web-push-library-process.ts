import { Agent } from 'node:https';
import webPush from 'web-push';
import { parsePushHosts } from '../../packages/core/src/web-push-endpoint.ts';
import { createWebPush } from '../../services/delivery-worker/src/channels/web-push/client.ts';
import { encodePayload } from '../../services/delivery-worker/src/channels/web-push/payload.ts';
import { PUSH, sendConcurrently } from './load.ts';
import { serveSenderCommands } from './sender.ts';

/** Sends with the library's defaults and persistent connections. */
serveSenderCommands(({ ca, webPush: { contact, publicKey, privateKey }, browsers }) => {
  const { window } = createWebPush({ hosts: parsePushHosts([]) });
  const agent = new Agent({ keepAlive: true, maxSockets: window, ca });
  const vapidDetails = { subject: contact, publicKey, privateKey };
  const payload = encodePayload(PUSH);
  return (count) =>
    sendConcurrently(count, window, async (index) => {
      const browser = browsers[index % browsers.length];
      if (browser === undefined) throw new Error('the scene has no browsers');
      const { endpoint, p256dh, auth } = browser;
      const options = { agent, vapidDetails, TTL: 86_400, urgency: 'high' } as const;
      await webPush.sendNotification({ endpoint, keys: { p256dh, auth } }, payload, options);
    });
});
