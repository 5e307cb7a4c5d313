import { benchProviders } from '../../providers/bench.ts';
import type { MeasuredProviders } from '../measured.ts';

/** Takes the CPU time of a message from the benchmark `providers`. */
export async function measureProviders(): Promise<MeasuredProviders> {
  const rows = await benchProviders(true);
  const cpuOf = (start: string): number => {
    const row = rows.find(({ what }) => what.startsWith(start));
    if (row?.ours === undefined) throw new Error(`the benchmark has no row ${start}`);
    return row.ours.median;
  };
  return {
    apns: cpuOf('APNs against bare HTTP/2: messages'),
    fcm: cpuOf('FCM against bare HTTP/2: messages'),
    'web-push': cpuOf('Web Push against web-push: messages'),
  };
}
