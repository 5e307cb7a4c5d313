import { toUnixSeconds } from '@carillon/accept/push-status';
import { ApiError } from '@carillon/core/api-error';
import { validate } from '@carillon/core/validate';
import type { PresenceReader } from '@carillon/presence/presence-reader';
import type { Store } from '@carillon/store/store';
import { presenceRequest } from './schema.ts';

/** Checks which devices are connected, in the order of the tokens. */
export type AreOnline = ReturnType<typeof createAreOnline>;

/** @returns a function that reports every device as offline, and the error to `onError`, if Redis fails */
export function createAreOnline(presenceReader: PresenceReader, onError: (error: Error) => void) {
  return async (tokens: readonly string[]): Promise<boolean[]> => {
    const entries = await presenceReader.lookup(tokens).catch((error: Error) => {
      onError(error);
      return [];
    });
    return tokens.map((_, index) => entries[index] !== undefined);
  };
}

/**
 * Handles `POST /devices/presence` (specification 4.5). Returns the known ones of up to 1,000 devices, in the order
 * of the request.
 *
 * @throws ApiError INVALID_PARAM, NO_RESULTS
 */
export async function getPresence(
  store: Pick<Store, 'devices'>,
  areOnline: AreOnline,
  app: string,
  value: unknown,
): Promise<{ presence: object[] }> {
  const tokens = [...new Set(validate(presenceRequest, value).tokens)];
  const found = await store.devices.findAll(app, tokens);
  if (found.length === 0) throw new ApiError('NO_RESULTS');
  const byToken = new Map(found.map((device) => [device._id, device]));
  const devices = tokens.flatMap((token) => byToken.get(token) ?? []);
  const online = await areOnline(devices.map((device) => device._id));
  return {
    presence: devices.map((device, index) => ({
      id: device._id,
      online: online[index] ?? false,
      last_active: toUnixSeconds(device.lastActiveAt),
      ...(device.uninstalled && { uninstalled: true }),
      ...(device.unsubscribed && { unsubscribed: true }),
    })),
  };
}
