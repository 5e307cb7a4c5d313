import { encodeGatewayMessage } from './gateway-messages.ts';
import type { PresenceReader } from './presence-reader.ts';
import type { PresenceServer } from './presence-server.ts';

/**
 * Creates a function that closes a device's connection by a message to its gateway. It does nothing for a device that
 * is not connected.
 *
 * @returns a function that throws if Redis fails
 */
export function createDisconnect(
  { redis, keys }: Pick<PresenceServer, 'redis' | 'keys'>,
  presenceReader: PresenceReader,
): (token: string) => Promise<void> {
  return async (token) => {
    const [presence] = await presenceReader.lookup([token]);
    if (presence === undefined) return;
    const { gateway, connection } = presence;
    const message = encodeGatewayMessage({ kind: 'kick', token, connection });
    // Without a stream the gateway has stopped, and so have its connections.
    await redis.xadd(keys.gatewayStream(gateway), 'NOMKSTREAM', '*', ...message);
  };
}
