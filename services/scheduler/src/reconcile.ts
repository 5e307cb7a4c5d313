import { isBatchId } from '@carillon/core/ids';
import type { Channel } from '@carillon/core/platforms';

/** Items of each kind looked at in one tick; more wait for the next. */
const AT_ONCE = 1_000;

/** What reconciling needs: what MongoDB owes, and producers. */
export interface ReconcileDeps {
  /** Opens scheduled pushes whose time has come. */
  openDuePushes(): Promise<number>;
  dueWork(limit: number): Promise<{ id: string; channel: Channel }[]>;
  dueFanOuts(limit: number): Promise<{ id: string; seq: number }[]>;
  dueEndings(limit: number): Promise<string[]>;
  addSendJob(push: string): Promise<void>;
  addFanOutJob(push: string, step: { seq: number }): Promise<void>;
  addDeliverJob(work: string, channel: Channel): Promise<void>;
  addEndJobs(pushes: readonly string[]): Promise<void>;
}

/** What one tick found. */
export interface Reconciled {
  opened: number;
  works: number;
  fanOuts: number;
  endings: number;
}

/**
 * Finds what is owed and worked by nobody, and only adds jobs for it. Jobs that exist are not added twice, so a
 * tick costs nothing while queues are well, and everything that Redis lost comes back within a tick.
 */
export async function reconcile(deps: ReconcileDeps): Promise<Reconciled> {
  const opened = await deps.openDuePushes();
  const [works, fanOuts, endings] = await Promise.all([
    deps.dueWork(AT_ONCE),
    deps.dueFanOuts(AT_ONCE),
    deps.dueEndings(AT_ONCE),
  ]);
  await Promise.all([
    ...works.map(({ id, channel }) =>
      isBatchId(id) || channel !== 'mqtt' ? deps.addDeliverJob(id, channel) : deps.addSendJob(id),
    ),
    ...fanOuts.map(({ id, seq }) => deps.addFanOutJob(id, { seq })),
    deps.addEndJobs(endings),
  ]);
  return { opened, works: works.length, fanOuts: fanOuts.length, endings: endings.length };
}
