import { fcm } from '../../services/delivery-worker/src/channels/fcm/client.ts';
import { fcmTokens, PUSH, sendInBatches } from './load.ts';
import { serveSenderCommands } from './sender.ts';

serveSenderCommands((fixture) => {
  const client = fcm.connect(fixture.fcm);
  const since = new Date();
  const tokenOf = fcmTokens();
  return (count) =>
    sendInBatches(
      count,
      fcm.window,
      () => client.prepare(PUSH, () => true),
      (index) => ({ channel: 'fcm', address: tokenOf(index), since }),
    );
});
