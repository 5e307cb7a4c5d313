import { encodeFcm } from '../../services/delivery-worker/src/channels/fcm/payload.ts';
import { fcmTokens, PUSH } from './load.ts';

/** The headers that Carillon sends. */
export function fcmHeaders(): Record<string, string> {
  return {
    'x-firebase-client': 'fire-admin-node/14.5.1',
    access_token_auth: 'true',
    authorization: 'Bearer an-access-token-of-the-bench',
    'content-type': 'application/json;charset=utf-8',
  };
}

/** The JSON body that firebase-admin sends. */
export function fcmMessages(): (index: number) => string {
  const { data } = encodeFcm(PUSH).createRequest('', Date.now()).message;
  const android = { priority: 'high', ttl: '86400s' };
  const tokenOf = fcmTokens();
  return (index) => JSON.stringify({ message: { token: tokenOf(index), data, android } });
}
