import { fcm } from '../../services/delivery-worker/src/channels/fcm/client.ts';
import { openBareHttp2 } from './bare-http2.ts';
import { fcmHeaders, fcmMessages } from './fcm-request.ts';
import { sendConcurrently } from './load.ts';
import { serveSenderCommands } from './sender.ts';

/** Sends over bare HTTP/2. */
serveSenderCommands(({ host, ports, ca, fcm: { projectId } }) => {
  const sendRequest = openBareHttp2(`https://${host}:${ports.fcm}`, ca);
  const headers = {
    ':method': 'POST',
    ':scheme': 'https',
    ':authority': 'fcm.googleapis.com',
    ':path': `/v1/projects/${projectId}/messages:send`,
    ...fcmHeaders(),
  };
  const messageOf = fcmMessages();
  return (count) =>
    sendConcurrently(count, fcm.window, (index) => sendRequest(headers, messageOf(index)));
});
