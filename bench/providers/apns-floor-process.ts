import { randomBytes } from 'node:crypto';
import { apns } from '../../services/delivery-worker/src/channels/apns/client.ts';
import { encodeApns } from '../../services/delivery-worker/src/channels/apns/payload.ts';
import { openBareHttp2 } from './bare-http2.ts';
import { appleTokens, PUSH, sendInWindow } from './load.ts';
import { obeyAsSender } from './sender.ts';

/** Characters of a provider token: a JWT of ES256 with the fields that APNs wants. */
const PROVIDER_TOKEN_BYTES = 150;

/** What node-apn sends, without node-apn. */
obeyAsSender(({ host, ports, ca }) => {
  const ask = openBareHttp2(`https://${host}:${ports.apns}`, ca);
  const { body, pushType, priority, expiry, collapseId } = encodeApns(PUSH, Date.now());
  const headers = {
    ':method': 'POST',
    ':scheme': 'https',
    ':authority': host,
    authorization: `bearer ${randomBytes(PROVIDER_TOKEN_BYTES).toString('base64url')}`,
    'apns-topic': 'com.example.app',
    'apns-push-type': pushType,
    'apns-priority': priority,
    'apns-expiration': expiry,
    'apns-collapse-id': collapseId,
  };
  const tokenOf = appleTokens();
  return (count) =>
    sendInWindow(count, apns.window, (index) =>
      ask({ ...headers, ':path': `/3/device/${tokenOf(index)}` }, body),
    );
});
