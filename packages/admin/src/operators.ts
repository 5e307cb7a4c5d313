import { createHash, randomBytes } from 'node:crypto';
import type {
  InviteDocument,
  OperatorAccounts,
  OperatorDocument,
  OperatorRole,
} from '@carillon/store/console-documents';
import type { InviteGrant, OpenLink } from '@carillon/store/invites';
import { managesOperators, type OperatorChange } from '@carillon/store/operators';
import type { Store } from '@carillon/store/store';
import { AdminError } from './admin-error.ts';
import { type Page, type PageQuery, toPage } from './page.ts';

const TOKEN_BYTES = 32;
const OPERATOR_ID = /^[0-9a-f]{24}$/;

/** Operator as other operators see it: without its password's hash. Times are unix milliseconds. */
export type OperatorView = ReturnType<typeof toOperatorView>;

/** One-time link as operators see it: without its token. Times are unix milliseconds. */
export type LinkView = ReturnType<typeof toLinkView>;

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
  const grant = { kind: 'setup', role: 'owner', accounts: 'all' } as const;
  return (await createLink(store, base, grant)).link;
}

/**
 * Creates a link that creates an operator.
 *
 * @param grant `by` is the id of the operator who makes the link, which ends with its access; undefined on the command line
 * @throws AdminError ACCOUNT_NOT_FOUND
 */
export async function inviteOperator(
  store: Pick<Store, 'invites' | 'accounts'>,
  base: string,
  grant: { role: OperatorRole; accounts: OperatorAccounts; by?: string },
): Promise<{ id: string; link: string }> {
  await requireAccounts(store, grant.accounts);
  return createLink(store, base, { kind: 'invite', ...grant });
}

/**
 * Creates a link that sets a new password of an operator.
 *
 * @param operator id or name
 * @param by id of the operator who makes the link, which ends with its access; undefined on the command line
 * @throws AdminError OPERATOR_NOT_FOUND, HAS_NO_PASSWORD
 */
export async function createPasswordLink(
  store: Pick<Store, 'operators' | 'invites'>,
  base: string,
  operator: string,
  by?: string,
): Promise<{ link: string }> {
  const { _id, role, accounts, openId, name } = await requireOperator(store, operator);
  if (openId !== undefined) {
    throw new AdminError(
      'HAS_NO_PASSWORD',
      `${name} logs in by single sign-on, without a password.`,
    );
  }
  const grant = { kind: 'reset' as const, role, accounts, operator: _id };
  const created = await createLink(store, base, { ...grant, ...(by !== undefined && { by }) });
  return { link: created.link };
}

/** Lists the invites and password links that work, oldest first. */
export async function listLinks(
  { invites }: Pick<Store, 'invites'>,
  query: PageQuery,
): Promise<Page<LinkView>> {
  const found = await invites.list(query.cursor ?? '', query.limit);
  return toPage(found.map(toLinkView), query, ({ id }) => id);
}

/**
 * Revokes a link. Of a revocation and a use at the same time, one succeeds.
 *
 * @throws AdminError LINK_NOT_FOUND when there is no such link, or it has been used
 */
export async function revokeLink(
  { invites }: Pick<Store, 'invites'>,
  id: string,
): Promise<{ id: string }> {
  if (await invites.revoke(id)) return { id };
  throw new AdminError('LINK_NOT_FOUND', `There is no link ${id}, or it has been used.`);
}

/**
 * Ends what an operator has without a further check: its sessions, the links and tokens it has made, and the links for
 * its password.
 *
 * @param keep digest of a session that stays valid
 */
export async function endAccess(
  { sessions, invites, operatorTokens }: Pick<Store, 'sessions' | 'invites' | 'operatorTokens'>,
  operator: string,
  keep?: Buffer,
): Promise<void> {
  // First: a session could make others of these meanwhile.
  await sessions.endAll(operator, keep);
  await invites.endAll(operator);
  await operatorTokens.endMadeBy(operator);
}

/** Ends the links and tokens that an operator has made. */
export async function endGrants(
  { invites, operatorTokens }: Pick<Store, 'invites' | 'operatorTokens'>,
  operator: string,
): Promise<void> {
  await invites.endMadeBy(operator);
  await operatorTokens.endMadeBy(operator);
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
 * Changes role, accounts and access of an operator. Open sessions follow at once; those of a disabled operator end. The
 * links and tokens of an operator who may no longer make them end too.
 *
 * @param operator id or name
 * @throws AdminError OPERATOR_NOT_FOUND, ACCOUNT_NOT_FOUND, LAST_OWNER
 */
export async function changeOperator(
  store: Pick<Store, 'operators' | 'sessions' | 'accounts' | 'invites' | 'operatorTokens'>,
  operator: string,
  change: OperatorChange,
): Promise<OperatorView> {
  const before = await requireOperator(store, operator);
  if (change.accounts !== undefined) await requireAccounts(store, change.accounts);
  if (Object.values(change).every((value) => value === undefined)) return toOperatorView(before);
  const changed = await store.operators.change(before._id, change);
  if (changed === undefined) throw operatorNotFound(operator);
  await requireOwnerLeft(store, before);
  if (changed.disabledAt !== undefined) await endAccess(store, before._id);
  else if (!managesOperators(changed)) await endGrants(store, before._id);
  return toOperatorView(changed);
}

/**
 * Removes an operator and ends its sessions, links and tokens.
 *
 * @param operator id or name
 * @throws AdminError OPERATOR_NOT_FOUND, LAST_OWNER
 */
export async function removeOperator(
  store: Pick<Store, 'operators' | 'sessions' | 'invites' | 'operatorTokens'>,
  operator: string,
): Promise<{ id: string }> {
  const before = await requireOperator(store, operator);
  if (!(await store.operators.remove(before._id))) throw operatorNotFound(operator);
  await requireOwnerLeft(store, before);
  await endAccess(store, before._id);
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
): Promise<{ id: string; link: string }> {
  const token = newToken();
  const id = await invites.create(digestToken(token), grant);
  return { id, link: `${base.replace(/\/+$/, '')}/setup#token=${token}` };
}

/** @throws AdminError ACCOUNT_NOT_FOUND unless all accounts exist */
export async function requireAccounts(
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

function toLinkView({ id, kind, role, accounts, expiresAt, maker, target }: OpenLink) {
  return {
    id,
    kind,
    role,
    accounts,
    /** Name of the operator whose password it sets. */
    ...(target !== undefined && { operator: target.name }),
    /** Name of the operator who has made it; absent for links of the command line. */
    ...(maker !== undefined && { by: maker.name }),
    expiresAt: expiresAt.getTime(),
  };
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
