import { createReports } from '../../packages/reports/src/reports.ts';
import { connectStore } from '../../packages/store/src/store.ts';
import { createWebhookStore } from '../../packages/webhooks/src/webhook-store.ts';

/** Everything that tests read and write of MongoDB: the store, the reports, the webhooks. */
export type TestStore = Awaited<ReturnType<typeof openStore>>;

/** Longer than any test: on a busy machine no call fails by a timeout that its test is not about. */
const NO_TIMEOUT_MS = 120_000;

/**
 * Connects to MongoDB, as a service does that reads reports and manages webhooks.
 *
 * @param options with `timeoutMs`, connecting takes no longer either
 */
export async function openStore(options: Parameters<typeof connectStore>[0]) {
  const timeoutMs = options.timeoutMs ?? NO_TIMEOUT_MS;
  const store = await connectStore({ connectMs: timeoutMs, ...options, timeoutMs });
  return { ...store, ...createReports(store), ...createWebhookStore(store) };
}
