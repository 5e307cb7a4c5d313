import type { Store } from './store.ts';

/** Delay of the second disconnect: by then a device whose CONNECT was in progress during the deletion is connected. */
const SECOND_DISCONNECT_DELAY_MS = 1_000;

/** Ends the pending deliveries of deleted devices and removes their subscriptions. Never throws. */
export type ClearDeletedDevices = (app: string, tokens: readonly string[]) => Promise<void>;

/**
 * @param checkCompletion enqueues a check of pushes that may be complete now
 * @param onError called with an error; the scheduler does what was left undone
 */
export function createClearDeletedDevices(
  { deletedDevices }: Pick<Store, 'deletedDevices'>,
  checkCompletion: (pushes: readonly string[]) => Promise<void>,
  onError: (error: unknown) => void,
): ClearDeletedDevices {
  return async (app, tokens) => {
    try {
      for (const token of tokens)
        await checkCompletion(await deletedDevices.clearLeftovers(app, token));
    } catch (error) {
      onError(error);
    }
  };
}

/**
 * Deletes an app's device: its credentials are rejected from then on, and its pending deliveries end as `gone`. If
 * Redis fails, a connected device stays connected until its next PINGREQ.
 *
 * @param disconnect closes the device's connection; throws if Redis fails
 * @returns false if the app has no such device
 */
export async function deleteDevice(
  { deletedDevices }: Pick<Store, 'deletedDevices'>,
  {
    disconnect,
    clearDeletedDevices,
  }: {
    disconnect: (token: string) => Promise<void>;
    clearDeletedDevices: ClearDeletedDevices;
  },
  app: string,
  token: string,
): Promise<boolean> {
  if (!(await deletedDevices.markDeleted(app, token))) return false;
  await disconnect(token).catch(() => undefined);
  setTimeout(
    () => void disconnect(token).catch(() => undefined),
    SECOND_DISCONNECT_DELAY_MS,
  ).unref();
  await clearDeletedDevices(app, [token]);
  return true;
}
