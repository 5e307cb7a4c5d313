import { createHash, randomBytes } from 'node:crypto';
import type {
  InviteDocument,
  OperatorAccounts,
  OperatorDocument,
  OperatorRole,
} from '@carillon/store/console-documents';
import type { InviteGrant } from '@carillon/store/invites';
import type { OperatorChange } from '@carillon/store/operators';
import type { Store } from '@carillon/store/store';
import { AdminError } from './admin-error.ts';
import { type Page, type PageQuery, toPage } from './page.ts';

const TOKEN_BYTES = 32;
const OPERATOR_ID = /^[0-9a-f]{24}$/;

/** Operator as other operators see it: without its password's hash. Times are unix milliseconds. */
export type OperatorView = ReturnType<typeof toOperatorView>;

/** Creates the token of a link or session: 256 random bits. */
export function newToken(): string {
  return randomBytes(TOKEN_BYTES).toString('base64url');
}

/** Returns the digest that a token is stored by; a token has too many bits to be guessed from it. */
export function digestToken(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/**
 * Creates a link that makes its reader the first operator, an owner.
 *
 * @param base URL of the console
 * @returns undefined when an operator exists
 */
export async function createSetupLink(
  store: Pick<Store, 'operators' | 'invites'>,
  base: string,
): Promise<string | undefined> {
  if (await store.operators.exist()) return undefined;
  return createLink(store, base, { kind: 'setup', role: 'owner', accounts: 'all' });
}

/**
 * Creates a link that creates an operator.
 *
 * @throws AdminError ACCOUNT_NOT_FOUND
 */
export async function inviteOperator(
  store: Pick<Store, 'invites' | 'accounts'>,
  base: string,
  grant: { role: OperatorRole; accounts: OperatorAccounts },
): Promise<{ link: string }> {
  await requireAccounts(store, grant.accounts);
  return { link: await createLink(store, base, { kind: 'invite', ...grant }) };
}

/**
 * Creates a link that sets a new password of an operator.
 *
 * @param operator id or name
 * @throws AdminError OPERATOR_NOT_FOUND, HAS_NO_PASSWORD
 */
export async function createPasswordLink(
  store: Pick<Store, 'operators' | 'invites'>,
  base: string,
  operator: string,
): Promise<{ link: string }> {
  const { _id, role, accounts, openId, name } = await requireOperator(store, operator);
  if (openId !== undefined) {
    throw new AdminError(
      'HAS_NO_PASSWORD',
      `${name} logs in by single sign-on, without a password.`,
    );
  }
  const grant = { kind: 'reset' as const, role, accounts, operator: _id };
  return { link: await createLink(store, base, grant) };
}

/** Lists operators in order of id. */
export async function listOperators(
  { operators }: Pick<Store, 'operators'>,
  query: PageQuery,
): Promise<Page<OperatorView>> {
  const found = await operators.list(query.cursor ?? '', query.limit);
  return toPage(found.map(toOperatorView), query, ({ id }) => id);
}

/**
 * Changes role, accounts and access of an operator. Open sessions follow at once; those of a disabled operator end.
 *
 * @param operator id or name
 * @throws AdminError OPERATOR_NOT_FOUND, ACCOUNT_NOT_FOUND, LAST_OWNER
 */
export async function changeOperator(
  store: Pick<Store, 'operators' | 'sessions' | 'accounts'>,
  operator: string,
  change: OperatorChange,
): Promise<OperatorView> {
  const before = await requireOperator(store, operator);
  if (change.accounts !== undefined) await requireAccounts(store, change.accounts);
  if (Object.values(change).every((value) => value === undefined)) return toOperatorView(before);
  const changed = await store.operators.change(before._id, change);
  if (changed === undefined) throw operatorNotFound(operator);
  await requireOwnerLeft(store, before);
  if (change.disabled === true) await store.sessions.endAll(before._id);
  return toOperatorView(changed);
}

/**
 * Removes an operator and ends its sessions.
 *
 * @param operator id or name
 * @throws AdminError OPERATOR_NOT_FOUND, LAST_OWNER
 */
export async function removeOperator(
  store: Pick<Store, 'operators' | 'sessions'>,
  operator: string,
): Promise<{ id: string }> {
  const before = await requireOperator(store, operator);
  if (!(await store.operators.remove(before._id))) throw operatorNotFound(operator);
  await requireOwnerLeft(store, before);
  await store.sessions.endAll(before._id);
  return { id: before._id };
}

/**
 * Puts an operator back if no owner is left. It checks after the change: two owners that remove each other at the same
 * time would both pass a check before it, and now both removals are undone.
 */
async function requireOwnerLeft(
  { operators }: Pick<Store, 'operators'>,
  before: OperatorDocument,
): Promise<void> {
  if (before.role !== 'owner' || before.disabledAt !== undefined) return;
  if ((await operators.countOwners()) > 0) return;
  await operators.restore(before);
  throw new AdminError(
    'LAST_OWNER',
    `${before.name} is the last owner. Make another operator an owner first.`,
  );
}

/** A link's token is in the fragment, which browsers send to no server and no proxy logs. */
async function createLink(
  { invites }: Pick<Store, 'invites'>,
  base: string,
  grant: InviteGrant,
): Promise<string> {
  const token = newToken();
  await invites.create(digestToken(token), grant);
  return `${base.replace(/\/+$/, '')}/setup#token=${token}`;
}

async function requireAccounts(
  store: Pick<Store, 'accounts'>,
  accounts: InviteDocument['accounts'],
): Promise<void> {
  if (accounts === 'all') return;
  for (const id of accounts) {
    if ((await store.accounts.find(id)) !== undefined) continue;
    throw new AdminError('ACCOUNT_NOT_FOUND', `There is no account ${id}.`);
  }
}

async function requireOperator(
  { operators }: Pick<Store, 'operators'>,
  idOrName: string,
): Promise<OperatorDocument> {
  const byId = OPERATOR_ID.test(idOrName) ? await operators.find(idOrName) : undefined;
  const found = byId ?? (await operators.findByName(idOrName));
  if (found === undefined) throw operatorNotFound(idOrName);
  return found;
}

function operatorNotFound(idOrName: string): AdminError {
  return new AdminError('OPERATOR_NOT_FOUND', `There is no operator ${idOrName}.`);
}

function toOperatorView(operator: OperatorDocument) {
  return {
    id: operator._id,
    name: operator.name,
    role: operator.role,
    accounts: operator.accounts,
    login: operator.openId === undefined ? ('password' as const) : ('openid' as const),
    disabled: operator.disabledAt !== undefined,
    createdAt: operator.createdAt.getTime(),
    ...(operator.lastLoginAt !== undefined && { lastLoginAt: operator.lastLoginAt.getTime() }),
  };
}
