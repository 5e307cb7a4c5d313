import { apns } from '../../services/delivery-worker/src/channels/apns/client.ts';
import { appleTokens, PUSH, sendInBatches } from './load.ts';
import { serveSenderCommands } from './sender.ts';

serveSenderCommands((fixture) => {
  const client = apns.connect(fixture.apns);
  const since = new Date();
  const tokenOf = appleTokens();
  return (count) =>
    sendInBatches(
      count,
      apns.window,
      () => client.prepare(PUSH, () => true),
      (index) => ({
        channel: 'apns',
        address: tokenOf(index),
        environment: 'production',
        bundle: 'com.example.app',
        since,
      }),
    );
});
