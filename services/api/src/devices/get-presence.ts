import { ApiError } from '@carillon/core/api-error';
import { validate } from '@carillon/core/validate';
import type { PresenceReader } from '@carillon/presence/presence-reader';
import type { LastSeen } from '@carillon/store/last-seen';
import type { Store } from '@carillon/store/store';
import { presenceRequest } from './schema.ts';

/** Checks which devices are connected, in the order of the tokens. */
export type AreOnline = ReturnType<typeof createAreOnline>;

/** @returns a function that reports every device as offline, and the error to `onError`, if Redis fails */
export function createAreOnline(
  presenceReader: Pick<PresenceReader, 'areOnline'>,
  onError: (error: Error) => void,
) {
  return async (tokens: readonly string[]): Promise<boolean[]> => {
    try {
      return await presenceReader.areOnline(tokens);
    } catch (error) {
      onError(error as Error);
      return tokens.map(() => false);
    }
  };
}

/**
 * Handles `POST /devices/presence` (specification 4.5). Returns the known ones of up to 1,000 devices, in the order
 * of the request, as JSON text.
 *
 * @throws ApiError INVALID_PARAM, NO_RESULTS
 */
export async function getPresence(
  store: Pick<Store, 'devices'>,
  areOnline: AreOnline,
  app: string,
  value: unknown,
): Promise<string> {
  const tokens = [...new Set(validate(presenceRequest, value).tokens)];
  // Of a device that is not the app's, only whether it is online is read, and not shown.
  const [found, online] = await Promise.all([
    store.devices.findLastSeen(app, tokens),
    areOnline(tokens),
  ]);
  if (found.length === 0) throw new ApiError('NO_RESULTS');
  const byToken = new Map(found.map((device) => [device.token, device]));
  const entries: string[] = [];
  for (const [index, token] of tokens.entries()) {
    const device = byToken.get(token);
    if (device !== undefined) entries.push(formatPresence(device, online[index] ?? false));
  }
  return `{"presence":[${entries.join(',')}]}`;
}

/** There are up to 1,000, and a text costs less than an object that is then made a text. */
function formatPresence(device: LastSeen, isOnline: boolean): string {
  const id = JSON.stringify(device.token);
  const lastActive = Math.floor(device.at / 1_000);
  const uninstalled = device.uninstalled ? ',"uninstalled":true' : '';
  const unsubscribed = device.unsubscribed ? ',"unsubscribed":true' : '';
  return `{"id":${id},"online":${isOnline},"last_active":${lastActive}${uninstalled}${unsubscribed}}`;
}
