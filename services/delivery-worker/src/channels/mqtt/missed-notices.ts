import { createBatcher } from '@carillon/core/batcher';
import { startInterval } from '@carillon/core/intervals';
import type { Shards } from '@carillon/presence/shards';
import type { Store } from '@carillon/store/store';

const REGISTER_INTERVAL_MS = 15_000;

/** Reports inbox rows whose devices could not be looked up, so that gateways check the inboxes. */
export type MissedNotices = ReturnType<typeof createMissedNotices>;

/**
 * Creates the reports of a worker, which go through MongoDB. It also registers with which list of servers the worker looks
 * up devices: gateways with another list check the inboxes of all their devices meanwhile.
 */
export function createMissedNotices(
  { presenceReports }: Pick<Store, 'presenceReports'>,
  { list, of }: Pick<Shards, 'list' | 'of'>,
  onError: (error: unknown) => void,
) {
  const registerList = () => void presenceReports.registerList(list).catch(onError);
  registerList();
  const stopRegistering = startInterval(registerList, REGISTER_INTERVAL_MS);

  const reportShard = createBatcher<string, void>('report-missed-notices', async (shards) => {
    await presenceReports.reportMissed([...new Set(shards)]);
    return shards.map(() => undefined);
  });

  return {
    /** Reports that rows of these devices were written. Throws if MongoDB fails. */
    async report(tokens: readonly string[]): Promise<void> {
      const shards = new Set(tokens.map((token) => of(token).name));
      await Promise.all([...shards].map((shard) => reportShard(shard)));
    },
    stop: stopRegistering,
  };
}
