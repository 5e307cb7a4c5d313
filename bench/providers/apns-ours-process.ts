import { apns } from '../../services/delivery-worker/src/channels/apns/client.ts';
import { appleTokens, PUSH, sendInBatches } from './load.ts';
import { obeyAsSender } from './sender.ts';

obeyAsSender((scene) => {
  const client = apns.connect(scene.apns);
  const since = new Date();
  const tokenOf = appleTokens();
  return (count) =>
    sendInBatches(
      count,
      apns.window,
      () => client.begin(PUSH),
      (index) => ({
        channel: 'apns',
        address: tokenOf(index),
        environment: 'production',
        bundle: 'com.example.app',
        since,
      }),
    );
});
