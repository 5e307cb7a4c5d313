import { listFailures } from '@carillon/admin/failures';
import { CHANNELS, type Channel } from '@carillon/core/channels';
import { FAILURES } from '@carillon/core/outcomes';
import type { Producers } from '@carillon/queue/producers';
import type { Reports } from '@carillon/reports/reports';
import type { RedriveDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import type { AccountOf } from '../account-of.ts';
import { objectId, pageFields } from '../http/inputs.ts';
import { ConsoleError, defineRoute, notFound } from '../http/route.ts';
import { interval } from '../inputs.ts';

/** Pushes that a request may name; more are selected by a filter. */
const MAX_NAMED_PUSHES = 1_000;

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
        const selected = omitUndefined(filter);
        const id = await store.redrives.create(app, selected, pushes, operator.name);
        if (id === undefined)
          throw new ConsoleError(
            'CONFLICT',
            'A re-drive of this app is running. Wait for its end.',
          );
        // Without Redis, the scheduler adds the job later.
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
      async handle({ input }) {
        const redrive = await store.redrives.find(input.redrive);
        if (redrive === undefined) throw notFound();
        return toRedriveView(redrive);
      },
    }),
  ];
}

type RedriveFilterInput = z.infer<typeof redriveRequest>['filter'] & object;

function omitUndefined({ channel, reason, from, to }: RedriveFilterInput) {
  return {
    ...(channel && { channel }),
    ...(reason && { reason }),
    ...(from && { from }),
    ...(to && { to }),
  };
}

/** `total` is absent while the pushes are counted. */
function toRedriveView(redrive: RedriveDocument) {
  const { _id, app, state, createdAt, endedAt, total, done, recipients, skipped } = redrive;
  return {
    ...{ id: _id, app, state, createdAt: createdAt.getTime() },
    ...(endedAt !== undefined && { endedAt: endedAt.getTime() }),
    ...(total !== undefined && { total }),
    ...{ done, recipients },
    skipped: Object.values(skipped).reduce((sum, n) => sum + n, 0),
    skippedReasons: skipped,
  };
}
