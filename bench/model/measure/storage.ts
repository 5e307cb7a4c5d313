import { storage } from '../../stack/storage.ts';
import { openStackFixture } from '../../support/fixture.ts';
import type { MeasuredStorage } from '../measured.ts';

const SERVICES = ['api', 'delivery-worker', 'device-gateway', 'scheduler'];

/** Takes the bytes on disk and the memory at rest from the benchmark `storage`. */
export async function measureStorage(): Promise<MeasuredStorage> {
  const fixture = await openStackFixture(1);
  try {
    const rows = await storage(fixture, 'usual');
    const sum = (text: string) => {
      const found = rows.filter(({ what }) => what.includes(text));
      if (found.length === 0) throw new Error(`the benchmark has no row ${text}`);
      return found.reduce((total, { value }) => total + value, 0);
    };
    return {
      device: sum('storage: devices, on disk'),
      subscription: sum('storage: subscriptions, on disk'),
      push: sum('storage: pushes, on disk'),
      batchRecipient: sum('storage: batches, on disk'),
      inboxRow: sum('storage: inbox, on disk'),
      restMb: Object.fromEntries(
        SERVICES.map((service) => [service, sum(`storage: memory of ${service}-0`)]),
      ),
    };
  } finally {
    await fixture.close();
  }
}
