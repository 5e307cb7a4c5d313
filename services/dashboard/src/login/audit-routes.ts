import type { ListedAuditEntry } from '@carillon/store/audit';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import { pageFields, queryTime } from '../http/inputs.ts';
import { type ConsoleRoute, defineRoute } from '../http/route.ts';

const MAX_TEXT = 100;
const ENTRY_ID = /^[0-9a-f]{24}$/;

/** Returns the route that lists the audit log. There is none that changes it. */
export function auditRoutes({ audit }: Pick<Store, 'audit'>): ConsoleRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/audit',
      role: 'admin',
      account: 'any',
      input: z.object({
        ...pageFields,
        cursor: z.string().regex(ENTRY_ID).optional(),
        actor: z.string().max(MAX_TEXT).optional(),
        action: z.string().max(MAX_TEXT).optional(),
        from: queryTime,
        to: queryTime,
      }),
      handle: async ({ input: { cursor, ...query }, operator }) => {
        const { accounts } = operator;
        const entries = await audit.list({ ...query, accounts, before: cursor });
        const last = entries.at(-1);
        const items = entries.map(toView);
        return last === undefined || entries.length < query.limit
          ? { items }
          : { items, next: last._id };
      },
    }),
  ];
}

function toView({
  _id,
  at,
  actor,
  action,
  account,
  facts,
  address,
  requestId,
  ends,
}: ListedAuditEntry) {
  const [end] = ends;
  return {
    id: _id,
    at: at.getTime(),
    actor,
    action,
    ...(account !== undefined && { account }),
    facts: { ...facts, ...end?.facts },
    address,
    requestId,
    /** `done`, the code of an error, or `unknown`: the action is under way or its process died. */
    result: end?.result ?? 'unknown',
  };
}
