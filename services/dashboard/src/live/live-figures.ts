import { CHANNELS } from '@carillon/core/channels';
import type { BacklogFigures } from '@carillon/presence/figures';
import { createFiguresReader, type FiguresSnapshot } from '@carillon/presence/figures-reader';
import type { Redis } from '@carillon/presence/redis';
import type { Reports } from '@carillon/reports/reports';
import type { Store } from '@carillon/store/store';
import { countMeanwhile } from './count-meanwhile.ts';

/** Maximum count of a channel's batches, as that of the scheduler. */
const MAX_COUNTED = 100_000;

export type LiveFigures = ReturnType<typeof createLiveFigures>;

/**
 * Creates the reader of the figures that all viewers share. A scheduler counts the pending batches some seconds after the
 * first viewer came: until then this process counts them once.
 */
export function createLiveFigures(
  redis: Redis,
  { backlog, suspensions }: Pick<Store, 'suspensions'> & Pick<Reports, 'backlog'>,
) {
  const figures = createFiguresReader(redis);
  const countPending = countMeanwhile(async () => {
    await suspensions.refresh();
    const channels: BacklogFigures[] = [];
    for (const channel of CHANNELS)
      channels.push({ channel, ...(await backlog.measure(channel, MAX_COUNTED)) });
    return channels;
  });

  return {
    /** Reads the figures. Throws if Redis fails. */
    async read(): Promise<FiguresSnapshot> {
      const snapshot = await figures.read();
      if (snapshot.channels.length > 0) return snapshot;
      return { ...snapshot, channels: (await countPending()) ?? [] };
    },
  };
}
