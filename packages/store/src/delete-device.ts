import type { Store } from './store.ts';

/** Delay of the second disconnect: by then a device whose CONNECT was in progress during the deletion is connected. */
const SECOND_DISCONNECT_DELAY_MS = 1_000;

/** Ends or moves what deleted and former devices have left. Never throws. */
export type ClearDevices = (app: string, tokens: readonly string[]) => Promise<void>;

/** Adds the jobs that follow from cleared devices. */
interface ClearingProducers {
  checkCompletion(pushes: readonly string[]): Promise<void>;
  deliver(batch: { app: string; id: string; channel: 'fcm'; recipients: number }): Promise<void>;
}

/** @param onError called with an error; the scheduler does what was left undone */
export function createClearDevices(
  store: Pick<Store, 'deletedDevices'>,
  producers: ClearingProducers,
  onError: (error: unknown) => void,
): ClearDevices {
  return async (app, tokens) => {
    try {
      for (const token of tokens) await clearDevice(store, producers, app, token);
    } catch (error) {
      onError(error);
    }
  };
}

/** Clears a deleted or former device, and adds the jobs that follow. May be repeated. */
export async function clearDevice(
  { deletedDevices }: Pick<Store, 'deletedDevices'>,
  producers: ClearingProducers,
  app: string,
  token: string,
): Promise<void> {
  const { pushes, fallbacks } = await deletedDevices.clearLeftovers(app, token);
  await producers.checkCompletion(pushes);
  await Promise.all(
    fallbacks.map((id) => producers.deliver({ app, id, channel: 'fcm', recipients: 1 })),
  );
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
    clearDevices,
  }: {
    disconnect: (token: string) => Promise<void>;
    clearDevices: ClearDevices;
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
  await clearDevices(app, [token]);
  return true;
}
