import {
  type AccountView,
  createAccount,
  listAccounts,
  resumeAccount,
  setRequestLimit,
  suspendAccount,
} from '@carillon/admin/accounts';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import { objectId, objectName, pageFields, toPageQuery } from '../http/inputs.ts';
import { ConsoleError, defineRoute } from '../http/route.ts';

const MAX_REQUESTS_PER_MINUTE = 1_000_000_000;

/** Returns the routes of accounts. Limits and suspension are the installation's, so no operator of one account sets them. */
export function accountRoutes(store: Pick<Store, 'accounts'>) {
  return [
    defineRoute({
      method: 'get',
      path: '/accounts',
      isPublic: true,
      role: 'viewer',
      account: 'any',
      input: z.object(pageFields),
      handle: ({ input, operator: { accounts } }) =>
        listAccounts(store, {
          ...toPageQuery(input),
          ...(accounts !== 'all' && { ids: accounts }),
        }),
    }),
    defineRoute({
      method: 'post',
      path: '/accounts',
      isPublic: true,
      role: 'admin',
      account: 'installation',
      input: z.object({ name: objectName, plan: z.enum(['trial', 'pro']).default('trial') }),
      audit: 'account.create',
      auditFacts: ({ name, plan }) => ({ name, plan }),
      handle: ({ input: { name, plan } }) => createAccount(store, name, plan),
    }),
    changeAccountRoute(store),
  ];
}

function changeAccountRoute(store: Pick<Store, 'accounts'>) {
  return defineRoute({
    method: 'put',
    path: '/accounts/:account',
    isPublic: true,
    role: 'admin',
    account: 'installation',
    input: z.object({
      account: objectId,
      suspended: z.boolean().optional(),
      requestLimit: z.number().int().min(1).max(MAX_REQUESTS_PER_MINUTE).nullable().optional(),
    }),
    audit: 'account.change',
    auditFacts: ({ suspended, requestLimit }) => ({
      ...(suspended !== undefined && { suspended }),
      ...(requestLimit !== undefined && { requestLimit: requestLimit ?? 'unlimited' }),
    }),
    async handle({ input: { account, suspended, requestLimit } }) {
      let view: AccountView | undefined;
      if (requestLimit !== undefined) view = await setRequestLimit(store, account, requestLimit);
      if (suspended === true) view = await suspendAccount(store, account);
      if (suspended === false) view = await resumeAccount(store, account);
      if (view !== undefined) return view;
      throw new ConsoleError('INVALID_PARAM', 'Give suspended or requestLimit.');
    },
  });
}
