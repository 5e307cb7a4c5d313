import { Agent, request } from 'node:https';
import { fcm } from '../../services/delivery-worker/src/channels/fcm/client.ts';
import { fcmHeaders, fcmMessages } from './fcm-request.ts';
import { sendInWindow } from './load.ts';
import { obeyAsSender } from './sender.ts';

/** HTTP/1.1 and nothing around it, as firebase-admin has to be used. */
obeyAsSender(({ host, ports, ca, fcm: { projectId } }) => {
  const agent = new Agent({ keepAlive: true, maxSockets: fcm.window, ca });
  const path = `/v1/projects/${projectId}/messages:send`;
  const at = { host, port: ports.fcm, path, method: 'POST', agent, headers: fcmHeaders() };
  const messageOf = fcmMessages();

  function ask(body: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const asking = request(at, (answer) => {
        answer.resume().once('end', () => {
          if (answer.statusCode === 200) resolve();
          else reject(new Error(`status ${answer.statusCode}`));
        });
      });
      asking.once('error', reject).end(body);
    });
  }

  return (count) => sendInWindow(count, fcm.window, (index) => ask(messageOf(index)));
});
