import type { Producers } from '@carillon/queue/producers';
import type { Logger } from '@carillon/runtime/logger';
import type { Store } from '@carillon/store/store';

/** Ends the pending deliveries of deleted devices and removes their subscriptions. */
export type ClearDeletedDevices = ReturnType<typeof createClearDeletedDevices>;

/** @returns a function that never throws: what it leaves undone, the scheduler does */
export function createClearDeletedDevices(
  { deletedDevices }: Pick<Store, 'deletedDevices'>,
  producers: Producers,
  log: Logger,
) {
  return async (app: string, tokens: readonly string[]): Promise<void> => {
    try {
      for (const token of tokens)
        await producers.checkCompletion(await deletedDevices.clearLeftovers(app, token));
    } catch (err) {
      log.warn({ err }, 'clearing a deleted device failed; the scheduler retries it');
    }
  };
}
