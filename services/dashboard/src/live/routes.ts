import { readHealth } from '@carillon/admin/health';
import { isPushId } from '@carillon/core/ids';
import { createAppFiguresReader } from '@carillon/presence/app-figures';
import { MAX_MINUTES } from '@carillon/presence/figures-reader';
import type { Redis } from '@carillon/presence/redis';
import type { Reports } from '@carillon/reports/reports';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import {
  ConsoleError,
  defineRoute,
  EventStream,
  mayUseAccount,
  type SessionOperator,
} from '../http/route.ts';
import { createAppsReader } from './apps.ts';
import type { LiveFigures } from './live-figures.ts';
import { createLiveReader } from './live-reader.ts';
import { buildOverview } from './overview.ts';
import { createPushWatch } from './push-watch.ts';

/** Event streams of one process; an operator's tabs share one. */
export const MAX_STREAMS = 200;
const MAX_STREAMS_PER_OPERATOR = 20;
/** Pushes that one stream watches: those of a list's page in several tabs. */
const MAX_WATCHED_PUSHES = 100;

const minutes = z.coerce.number().int().min(1).max(MAX_MINUTES).default(MAX_MINUTES);
const pushIds = z
  .union([z.string(), z.array(z.string())])
  .default([])
  .transform((ids) => [...new Set([ids].flat())])
  .refine((ids) => ids.length <= MAX_WATCHED_PUSHES && ids.every(isPushId), {
    error: `expected at most ${MAX_WATCHED_PUSHES} push ids`,
  });

/** Resources of the live routes. */
export interface LiveResources {
  /** The Redis of the queues. */
  redis: Redis;
  figures: LiveFigures;
  store: Pick<Store, 'credentials' | 'apps' | 'suspensions'> &
    Pick<Reports, 'pushProgress' | 'appBacklog'>;
  /** Interval of the shared reader's reads; 5 s unless given. */
  intervalMs?: number;
}

/**
 * Creates the routes of live data. Nothing is read without a viewer. Events of `GET /events`: `overview` at once and every
 * 5 s; `unavailable` with the time of the last one instead while Redis does not respond; `push` when a watched push has
 * changed, and once in the beginning.
 */
export function liveRoutes({ redis, figures, store, intervalMs }: LiveResources) {
  const reader = createLiveReader({
    figures,
    readApps: createAppsReader(createAppFiguresReader(redis), store),
    readHealth: () => readHealth(redis, store),
    ...(intervalMs !== undefined && { intervalMs }),
  });
  const pushWatch = createPushWatch(
    store.pushProgress,
    intervalMs === undefined ? {} : { intervalMs, rareIntervalMs: intervalMs },
  );
  const streams = createStreamLimit();

  const overview = defineRoute({
    method: 'get',
    path: '/overview',
    role: 'viewer',
    account: 'any',
    input: z.object({ minutes }),
    async handle({ input, operator }) {
      const state = await reader.read().catch(() => {
        throw new ConsoleError('UNAVAILABLE', 'Redis does not respond: there are no figures.', 5);
      });
      return buildOverview(state, operator, input.minutes);
    },
  });

  const events = defineRoute({
    method: 'get',
    path: '/events',
    role: 'viewer',
    account: 'any',
    input: z.object({ minutes, push: pushIds }),
    async handle({ input, operator }) {
      const pushes = await filterPermitted(store, operator, input.push);
      streams.assertFree(operator.id);
      return new EventStream((send, closed) => {
        if (closed.aborted) return;
        const releases = [
          streams.add(operator.id),
          reader.subscribe({
            update: (state) => send('overview', buildOverview(state, operator, input.minutes)),
            unavailable: (since) => send('unavailable', { since }),
          }),
          pushWatch.watch(pushes, (id) => send('push', { id })),
        ];
        closed.addEventListener('abort', () => releases.forEach((release) => void release()), {
          once: true,
        });
      });
    },
  });

  return [overview, events];
}

/** Leaves out the pushes that do not exist, and equally those that the operator may not see. */
async function filterPermitted(
  { pushProgress }: Pick<Reports, 'pushProgress'>,
  operator: SessionOperator,
  pushes: readonly string[],
): Promise<string[]> {
  if (pushes.length === 0) return [];
  const accounts = await pushProgress.findAccounts(pushes);
  return [...accounts].flatMap(([id, account]) => (mayUseAccount(operator, account) ? [id] : []));
}

/** Limits the streams of the process and of each operator. */
function createStreamLimit() {
  const byOperator = new Map<string, number>();
  let all = 0;
  return {
    /** @throws ConsoleError UNAVAILABLE, TOO_MANY_ATTEMPTS */
    assertFree(operator: string): void {
      if (all >= MAX_STREAMS) throw new ConsoleError('UNAVAILABLE', 'Too many viewers.', 30);
      if ((byOperator.get(operator) ?? 0) >= MAX_STREAMS_PER_OPERATOR)
        throw new ConsoleError('TOO_MANY_ATTEMPTS', 'Too many open pages of this operator.', 30);
    },
    /** Counts a stream until the returned function is called. */
    add(operator: string): () => void {
      all += 1;
      byOperator.set(operator, (byOperator.get(operator) ?? 0) + 1);
      return () => {
        all -= 1;
        const left = (byOperator.get(operator) ?? 1) - 1;
        if (left === 0) byOperator.delete(operator);
        else byOperator.set(operator, left);
      };
    },
  };
}
