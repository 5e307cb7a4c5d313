import { createReports } from '../../packages/reports/src/reports.ts';
import { connectStore } from '../../packages/store/src/store.ts';
import { createWebhookStore } from '../../packages/webhooks/src/webhook-store.ts';

/** Everything that tests read and write of MongoDB: the store, the reports, the webhooks. */
export type TestStore = Awaited<ReturnType<typeof openStore>>;

/** Connects to MongoDB, as a service does that reads reports and manages webhooks. */
export async function openStore(options: Parameters<typeof connectStore>[0]) {
  const store = await connectStore(options);
  return { ...store, ...createReports(store), ...createWebhookStore(store) };
}
