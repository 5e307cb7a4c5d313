import type { Store } from '@carillon/store/store';
import { createAppBacklog } from './app-backlog.ts';
import { createBacklog } from './backlog.ts';
import { createDeliveryStatus } from './delivery-status.ts';
import { createDeviceOverviews } from './device-overviews.ts';
import { createExportPages } from './export-pages.ts';
import { createFailures } from './failures.ts';
import { createPending } from './pending.ts';
import { createPushOutcomes } from './push-outcomes.ts';
import { createPushProgress } from './push-progress.ts';
import { createPushSearch } from './push-search.ts';
import { createPushSummaries } from './push-summaries.ts';
import { createPushTitles } from './push-titles.ts';
import { createPushesOfDevice } from './pushes-of-device.ts';
import { createRecipients } from './recipients.ts';

/** All reports over a store's connections. */
export type Reports = ReturnType<typeof createReports>;

/** Creates the reports over the connections of a store. None of them writes. */
export function createReports({
  db,
  clock,
  suspensions,
}: Pick<Store, 'db' | 'clock' | 'suspensions'>) {
  const pushesOfDevice = createPushesOfDevice(db);
  return {
    appBacklog: createAppBacklog(db, clock, suspensions),
    backlog: createBacklog(db, clock, suspensions),
    deliveryStatus: createDeliveryStatus(db),
    deviceOverviews: createDeviceOverviews(db, clock),
    exportPages: createExportPages(db),
    failures: createFailures(db),
    pending: createPending(db),
    pushesOfDevice,
    pushOutcomes: createPushOutcomes(db),
    pushProgress: createPushProgress(db),
    pushSearch: createPushSearch(db, clock, pushesOfDevice),
    pushSummaries: createPushSummaries(db),
    pushTitles: createPushTitles(db),
    recipients: createRecipients(db),
  };
}
