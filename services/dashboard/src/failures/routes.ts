import { listFailures } from '@carillon/admin/failures';
import { getRedrive, MAX_NAMED_PUSHES, startRedrive } from '@carillon/admin/redrives';
import { CHANNELS, type Channel } from '@carillon/core/channels';
import { FAILURES } from '@carillon/core/outcomes';
import type { Producers } from '@carillon/queue/producers';
import type { Reports } from '@carillon/reports/reports';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import type { AccountOf } from '../account-of.ts';
import { objectId, pageFields } from '../http/inputs.ts';
import { defineRoute } from '../http/route.ts';
import { interval } from '../inputs.ts';

const failureFilter = {
  channel: z.enum(CHANNELS as [Channel, ...Channel[]]).optional(),
  reason: z.enum(FAILURES).optional(),
  ...interval,
};

const redriveRequest = z
  .object({
    app: objectId,
    pushes: z.array(objectId).min(1).max(MAX_NAMED_PUSHES).optional(),
    filter: z.strictObject(failureFilter).optional(),
  })
  .refine(({ pushes, filter }) => pushes !== undefined || filter !== undefined, {
    error: 'Name pushes or a filter; an empty filter selects all failures.',
  });

/** Makes the routes that list failed deliveries and re-drive them. */
export function failureRoutes(
  store: Pick<Store, 'redrives'> & Pick<Reports, 'failures'>,
  producers: Pick<Producers, 'redrive'>,
  accountOf: AccountOf,
) {
  return [
    defineRoute({
      method: 'get',
      path: '/apps/:app/failures',
      isPublic: true,
      role: 'viewer',
      input: z.object({ app: objectId, ...failureFilter, ...pageFields }),
      account: ({ app }) => accountOf.app(app),
      handle: ({ input: { app, ...query } }) => listFailures(store, app, query),
    }),
    defineRoute({
      method: 'post',
      path: '/apps/:app/redrives',
      isPublic: true,
      role: 'operator',
      input: redriveRequest,
      account: ({ app }) => accountOf.app(app),
      audit: 'failures.redrive',
      async handle({ input: { app, pushes, filter = {} }, operator }) {
        const id = await startRedrive(store, app, { ...filter, pushes }, operator.name);
        // The scheduler would add the job seconds later.
        void producers.redrive({ _id: id });
        return { id };
      },
    }),
    defineRoute({
      method: 'get',
      path: '/redrives/:redrive',
      isPublic: true,
      role: 'viewer',
      input: z.object({ redrive: objectId }),
      account: ({ redrive }) => accountOf.redrive(redrive),
      handle: ({ input }) => getRedrive(store, input.redrive),
    }),
  ];
}
