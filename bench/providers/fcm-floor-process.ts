import { fcm } from '../../services/delivery-worker/src/channels/fcm/client.ts';
import { openBareHttp2 } from './bare-http2.ts';
import { fcmHeaders, fcmMessages } from './fcm-request.ts';
import { sendInWindow } from './load.ts';
import { obeyAsSender } from './sender.ts';

/** HTTP/2 and nothing around it. */
obeyAsSender(({ host, ports, ca, fcm: { projectId } }) => {
  const ask = openBareHttp2(`https://${host}:${ports.fcm}`, ca);
  const headers = {
    ':method': 'POST',
    ':scheme': 'https',
    ':authority': 'fcm.googleapis.com',
    ':path': `/v1/projects/${projectId}/messages:send`,
    ...fcmHeaders(),
  };
  const messageOf = fcmMessages();
  return (count) => sendInWindow(count, fcm.window, (index) => ask(headers, messageOf(index)));
});
