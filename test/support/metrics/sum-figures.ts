import type { AppCounts } from '../../../packages/core/src/app-counts.ts';
import {
  createAppFiguresReader,
  sumAppMinutes,
} from '../../../packages/presence/src/app-figures.ts';
import {
  createFiguresReader,
  type FiguresSnapshot,
} from '../../../packages/presence/src/figures-reader.ts';
import { connectRedis } from '../../../packages/presence/src/redis.ts';
import type { Dev } from '../stack/dev-file.ts';

/** The figures of the last hour, added up. */
export interface FigureSums {
  accepted: number;
  /** Recipients by channel and outcome: `mqtt delivered`. */
  ended: Record<string, number>;
  failures: Record<string, number>;
  receipts: number;
  gateways: FiguresSnapshot['gateways'];
  channels: string[];
  apps: Record<string, AppCounts>;
}

/** Reads the figures of a stack as the console does. */
export async function sumFigures(dev: Pick<Dev, 'redis'>): Promise<FigureSums> {
  const redis = await connectRedis({ url: dev.redis });
  try {
    const { minutes, gateways, channels } = await createFiguresReader(redis).read();
    const ofApps = await createAppFiguresReader(redis).read();
    const sums: FigureSums = {
      ...{ accepted: 0, ended: {}, failures: {}, receipts: 0, gateways },
      channels: channels.map(({ channel }) => channel).sort(),
      apps: Object.fromEntries(sumAppMinutes(ofApps.minutes)),
    };
    for (const { accepted, ended, failures, latencies } of minutes) {
      sums.accepted += accepted;
      for (const [channel, counts] of Object.entries(ended))
        for (const [outcome, n] of Object.entries(counts))
          add(sums.ended, `${channel} ${outcome}`, n);
      for (const [reason, n] of Object.entries(failures)) add(sums.failures, reason, n);
      for (const n of latencies.values()) sums.receipts += n;
    }
    return sums;
  } finally {
    redis.disconnect();
  }
}

function add(counts: Record<string, number>, name: string, n: number): void {
  counts[name] = (counts[name] ?? 0) + n;
}
