import {
  createOperatorToken,
  DAY_SECONDS,
  listOperatorTokens,
  revokeOperatorToken,
  TOKEN_DAYS,
  TOKEN_ROLES,
  tokenName,
} from '@carillon/admin/operator-tokens';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import { objectId, pageFields, toPageQuery } from '../http/inputs.ts';
import { defineRoute } from '../http/route.ts';
import { describeAccounts, operatorAccounts } from './operator-accounts.ts';

const common = { role: 'owner', account: 'installation' } as const;

const newToken = z.object({
  name: tokenName,
  role: z.enum(TOKEN_ROLES),
  accounts: operatorAccounts,
  days: z.number().int().min(1).max(TOKEN_DAYS.max).default(TOKEN_DAYS.default),
});

/** Returns the routes with which owners manage operator tokens. A token's text is in the response that creates it only. */
export function tokenRoutes(store: Pick<Store, 'operatorTokens' | 'accounts'>) {
  return [
    defineRoute({
      ...common,
      method: 'get',
      path: '/operators/tokens',
      input: z.object(pageFields),
      handle: ({ input }) => listOperatorTokens(store, toPageQuery(input)),
    }),
    defineRoute({
      ...common,
      method: 'post',
      path: '/operators/tokens',
      input: newToken,
      audit: 'operator.create-token',
      auditFacts: ({ name, role, accounts, days }) => ({
        ...{ name, role, accounts: describeAccounts(accounts), days },
      }),
      handle: ({ input: { days, ...grant }, operator: { id: by } }) =>
        createOperatorToken(store, { ...grant, seconds: days * DAY_SECONDS, by }),
    }),
    defineRoute({
      ...common,
      method: 'delete',
      path: '/operators/tokens/:id',
      input: z.object({ id: objectId }),
      audit: 'operator.revoke-token',
      handle: ({ input }) => revokeOperatorToken(store, input.id),
    }),
  ];
}
