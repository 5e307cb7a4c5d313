import { fcm } from '../../services/delivery-worker/src/channels/fcm/client.ts';
import { fcmTokens, PUSH, sendInBatches } from './load.ts';
import { obeyAsSender } from './sender.ts';

obeyAsSender((scene) => {
  const client = fcm.connect(scene.fcm);
  const since = new Date();
  const tokenOf = fcmTokens();
  return (count) =>
    sendInBatches(
      count,
      fcm.window,
      () => client.begin(PUSH),
      (index) => ({ channel: 'fcm', address: tokenOf(index), since }),
    );
});
