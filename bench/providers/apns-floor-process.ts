import { randomBytes } from 'node:crypto';
import { apns } from '../../services/delivery-worker/src/channels/apns/client.ts';
import { encodeApns } from '../../services/delivery-worker/src/channels/apns/payload.ts';
import { openBareHttp2 } from './bare-http2.ts';
import { appleTokens, PUSH, sendConcurrently } from './load.ts';
import { serveSenderCommands } from './sender.ts';

/** Length of a provider token: an ES256 JWT with the claims that APNs requires. */
const PROVIDER_TOKEN_BYTES = 150;

/** Sends the same request as node-apn, without node-apn. */
serveSenderCommands(({ host, ports, ca }) => {
  const sendRequest = openBareHttp2(`https://${host}:${ports.apns}`, ca);
  const { body, headers: own } = encodeApns(PUSH, { nowMs: Date.now() });
  const headers = {
    ':method': 'POST',
    ':scheme': 'https',
    ':authority': host,
    authorization: `bearer ${randomBytes(PROVIDER_TOKEN_BYTES).toString('base64url')}`,
    'apns-topic': 'com.example.app',
    ...own,
  };
  const tokenOf = appleTokens();
  return (count) =>
    sendConcurrently(count, apns.window, (index) =>
      sendRequest({ ...headers, ':path': `/3/device/${tokenOf(index)}` }, body),
    );
});
