import { ApiError } from '@carillon/core/api-error';
import type { DeviceDocument } from '@carillon/store/documents';
import { check } from '../http/check.ts';
import { unixSeconds } from '../push/push-status.ts';
import { presenceRequest } from './schema.ts';

/** What bulk presence needs. */
export interface BulkPresenceDeps {
  findDevices(app: string, tokens: readonly string[]): Promise<DeviceDocument[]>;
  areOnline(tokens: readonly string[]): Promise<boolean[]>;
}

/**
 * `POST /devices/presence` (specification 4.5): the known ones of up to 1,000 devices, in the order asked.
 *
 * @throws ApiError INVALID_PARAM, NO_RESULTS
 */
export async function bulkPresence(
  deps: BulkPresenceDeps,
  app: string,
  value: unknown,
): Promise<{ presence: object[] }> {
  const tokens = [...new Set(check(presenceRequest, value).tokens)];
  const found = await deps.findDevices(app, tokens);
  if (found.length === 0) throw new ApiError('NO_RESULTS');
  const byToken = new Map(found.map((device) => [device._id, device]));
  const devices = tokens.flatMap((token) => byToken.get(token) ?? []);
  const online = await deps.areOnline(devices.map((device) => device._id));
  return {
    presence: devices.map((device, index) => ({
      id: device._id,
      online: online[index] ?? false,
      last_active: unixSeconds(device.lastActiveAt),
      ...(device.uninstalled && { uninstalled: true }),
      ...(device.unsubscribed && { unsubscribed: true }),
    })),
  };
}
