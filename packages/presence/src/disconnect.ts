import { encodeGatewayMessage } from './gateway-messages.ts';
import type { PresenceReader } from './presence-reader.ts';
import type { Shards } from './shards.ts';

/**
 * Creates a function that closes a device's connection by a message to its gateway. It does nothing for a device that
 * is not connected.
 *
 * @returns a function that throws if Redis fails
 */
export function createDisconnect(
  { of }: Pick<Shards, 'of'>,
  presenceReader: PresenceReader,
): (token: string) => Promise<void> {
  return async (token) => {
    const [presence] = await presenceReader.lookup([token]);
    if (presence === undefined) return;
    if (typeof presence === 'string') throw new Error('the presence of the device is unknown');
    const { gateway, connection } = presence;
    const { redis, keys } = of(token);
    const message = encodeGatewayMessage({ kind: 'kick', token, connection });
    // Without a stream the gateway has stopped, and so have its connections.
    await redis.xadd(keys.gatewayStream(gateway), 'NOMKSTREAM', '*', ...message);
  };
}
