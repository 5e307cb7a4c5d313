import { toPage } from '@carillon/admin/page';
import type { ListedAuditEntry } from '@carillon/store/audit';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import { pageFields, queryTime } from '../http/inputs.ts';
import { defineRoute } from '../http/route.ts';

const MAX_TEXT = 100;
const ENTRY_ID = /^[0-9a-f]{24}$/;

/** Returns the route that lists the audit log. There is none that changes it. */
export function auditRoutes({ audit }: Pick<Store, 'audit'>) {
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
        return toPage(entries.map(toView), query, ({ id }) => id);
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
