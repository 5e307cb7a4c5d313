import {
  changeOperator,
  createPasswordLink,
  inviteOperator,
  listLinks,
  listOperators,
  removeOperator,
  revokeLink,
} from '@carillon/admin/operators';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import { objectId, pageFields, toPageQuery } from '../http/inputs.ts';
import { ConsoleError, defineRoute, ROLES } from '../http/route.ts';
import { describeAccounts, operatorAccounts } from './operator-accounts.ts';

const role = z.enum(ROLES);

const common = { role: 'owner', account: 'installation' } as const;

/**
 * Returns the routes with which owners manage operators.
 *
 * @param baseUrl address of the console in CONSOLE_URL; empty: links are paths, which the page completes
 */
export function operatorRoutes(
  store: Pick<Store, 'operators' | 'sessions' | 'invites' | 'operatorTokens' | 'accounts'>,
  baseUrl: string,
) {
  return [
    defineRoute({
      ...common,
      method: 'get',
      path: '/operators',
      input: z.object(pageFields),
      handle: ({ input }) => listOperators(store, toPageQuery(input)),
    }),
    defineRoute({
      ...common,
      method: 'post',
      path: '/operators/invite',
      input: z.object({ role, accounts: operatorAccounts }),
      audit: 'operator.invite',
      auditFacts: (input) => ({ role: input.role, accounts: describeAccounts(input.accounts) }),
      handle: ({ input, operator }) =>
        inviteOperator(store, baseUrl, { ...input, by: operator.id }),
    }),
    defineRoute({
      ...common,
      method: 'post',
      path: '/operators/:id/password-link',
      input: z.object({ id: objectId }),
      audit: 'operator.password-link',
      handle: ({ input, operator }) => createPasswordLink(store, baseUrl, input.id, operator.id),
    }),
    ...linkRoutes(store),
    defineRoute({
      ...common,
      method: 'put',
      path: '/operators/:id',
      input: z.object({
        id: objectId,
        role: role.optional(),
        accounts: operatorAccounts.optional(),
        disabled: z.boolean().optional(),
      }),
      audit: 'operator.change',
      auditFacts: (input) => ({
        ...(input.role !== undefined && { role: input.role }),
        ...(input.accounts !== undefined && { accounts: describeAccounts(input.accounts) }),
        ...(input.disabled !== undefined && { disabled: input.disabled }),
      }),
      handle: ({ input: { id, role: newRole, accounts: newAccounts, disabled } }) =>
        changeOperator(store, id, {
          ...(newRole !== undefined && { role: newRole }),
          ...(newAccounts !== undefined && { accounts: newAccounts }),
          ...(disabled !== undefined && { disabled }),
        }),
    }),
    defineRoute({
      ...common,
      method: 'delete',
      path: '/operators/:id',
      input: z.object({ id: objectId }),
      audit: 'operator.remove',
      handle: ({ input, operator }) => {
        if (input.id !== operator.id) return removeOperator(store, input.id);
        throw new ConsoleError('CONFLICT', 'Another owner has to remove you.');
      },
    }),
  ];
}

/** Returns the routes of links that nobody has used yet. */
function linkRoutes(store: Pick<Store, 'invites'>) {
  return [
    defineRoute({
      ...common,
      method: 'get',
      path: '/operators/links',
      input: z.object(pageFields),
      handle: ({ input }) => listLinks(store, toPageQuery(input)),
    }),
    defineRoute({
      ...common,
      method: 'delete',
      path: '/operators/links/:id',
      input: z.object({ id: objectId }),
      audit: 'operator.revoke-link',
      handle: ({ input }) => revokeLink(store, input.id),
    }),
  ];
}
