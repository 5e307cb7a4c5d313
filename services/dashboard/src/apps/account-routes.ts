import {
  type AccountView,
  createAccount,
  getAccount,
  listAccounts,
  renameAccount,
  resumeAccount,
  setRequestLimit,
  suspendAccount,
} from '@carillon/admin/accounts';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import { objectId, objectName, pageFields, toPageQuery } from '../http/inputs.ts';
import { ConsoleError, defineRoute } from '../http/route.ts';

const MAX_REQUESTS_PER_MINUTE = 1_000_000_000;

/** Returns the routes of accounts. Names, limits and suspension are the installation's, so no operator of one account sets them. */
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
    defineRoute({
      method: 'get',
      path: '/accounts/:account',
      isPublic: true,
      role: 'viewer',
      account: async ({ account }) => (await store.accounts.find(account))?._id,
      input: z.object({ account: objectId }),
      handle: ({ input }) => getAccount(store, input.account),
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
      name: objectName.optional(),
      suspended: z.boolean().optional(),
      requestLimit: z.number().int().min(1).max(MAX_REQUESTS_PER_MINUTE).nullable().optional(),
    }),
    audit: 'account.change',
    auditFacts: ({ name, suspended, requestLimit }) => ({
      ...(name !== undefined && { name }),
      ...(suspended !== undefined && { suspended }),
      ...(requestLimit !== undefined && { requestLimit: requestLimit ?? 'unlimited' }),
    }),
    async handle({ input: { account, name, suspended, requestLimit } }) {
      let view: AccountView | undefined;
      if (name !== undefined) view = await renameAccount(store, account, name);
      if (requestLimit !== undefined) view = await setRequestLimit(store, account, requestLimit);
      if (suspended === true) view = await suspendAccount(store, account);
      if (suspended === false) view = await resumeAccount(store, account);
      if (view !== undefined) return view;
      throw new ConsoleError('INVALID_PARAM', 'Give name, suspended or requestLimit.');
    },
  });
}
