import type { Reports } from '@carillon/reports/reports';
import type { Store } from '@carillon/store/store';
import type { Routing } from '../http/routing.ts';
import type { RouteRegistrar } from '../http/server.ts';
import {
  getOutcomes,
  getRecipient,
  listDevicePushes,
  listPushes,
  listRecipients,
} from './get-outcomes.ts';

/**
 * Additional response time of a summary: the inbox rows of a push with a collapse key are read one by one, and a
 * million of them take seconds.
 */
const SUMMARY_EXTRA_MS = 20_000;

/** Registers the routes that list pushes and report the outcomes of their recipients. */
export function outcomesRoutes(
  routing: Routing,
  store: Pick<Store, 'devices'> & Pick<Reports, 'pushOutcomes' | 'pushesOfDevice' | 'recipients'>,
): RouteRegistrar {
  return (router) => {
    router.get(
      '/pushes',
      routing.withApiKey({}, ({ query }, { app }) =>
        listPushes(store, app._id, {
          from: query('from'),
          to: query('to'),
          state: query('state'),
          page: query('page'),
        }),
      ),
    );
    router.get(
      '/pushes/:id/outcomes',
      routing.withApiKey({ extraMs: () => SUMMARY_EXTRA_MS }, ({ params }, { app }) =>
        getOutcomes(store, app._id, params.id ?? ''),
      ),
    );
    router.get(
      '/pushes/:id/recipients',
      routing.withApiKey({}, ({ params, query }, { app }) =>
        listRecipients(store, app._id, params.id ?? '', {
          outcome: query('outcome'),
          page: query('page'),
        }),
      ),
    );
    router.get(
      '/pushes/:id/recipients/:token',
      routing.withApiKey({}, ({ params }, { app }) =>
        getRecipient(store, app._id, params.id ?? '', params.token ?? ''),
      ),
    );
    router.get(
      '/devices/:token/pushes',
      routing.withApiKey({}, ({ params, query }, { app }) =>
        listDevicePushes(store, app._id, params.token ?? '', { page: query('page') }),
      ),
    );
  };
}
