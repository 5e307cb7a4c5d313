import { Agent, request } from 'node:https';
import { fcm } from '../../services/delivery-worker/src/channels/fcm/client.ts';
import { fcmHeaders, fcmMessages } from './fcm-request.ts';
import { sendConcurrently } from './load.ts';
import { serveSenderCommands } from './sender.ts';

/** Sends over bare HTTP/1.1, the protocol that firebase-admin needs here. */
serveSenderCommands(({ host, ports, ca, fcm: { projectId } }) => {
  const agent = new Agent({ keepAlive: true, maxSockets: fcm.window, ca });
  const path = `/v1/projects/${projectId}/messages:send`;
  const requestOptions = {
    host,
    port: ports.fcm,
    path,
    method: 'POST',
    agent,
    headers: fcmHeaders(),
  };
  const messageOf = fcmMessages();

  function sendRequest(body: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const sent = request(requestOptions, (response) => {
        response.resume().once('end', () => {
          if (response.statusCode === 200) resolve();
          else reject(new Error(`status ${response.statusCode}`));
        });
      });
      sent.once('error', reject).end(body);
    });
  }

  return (count) => sendConcurrently(count, fcm.window, (index) => sendRequest(messageOf(index)));
});
