import { createFiguresReader, type FiguresSnapshot } from '@carillon/presence/figures-reader';
import type { Redis } from '@carillon/presence/redis';
import { measureChannels } from '@carillon/reports/backlog';
import type { Reports } from '@carillon/reports/reports';
import type { Store } from '@carillon/store/store';
import { countMeanwhile } from './count-meanwhile.ts';

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
    return measureChannels(backlog);
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
