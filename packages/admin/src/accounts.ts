import type { AccountDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { AdminError } from './admin-error.ts';
import { type Page, type PageQuery, toPage } from './page.ts';

type Accounts = Pick<Store, 'accounts'>;

/** Account as operators see it. */
export interface AccountView {
  id: string;
  name: string;
  plan: AccountDocument['plan'];
  /** Requests per minute; null means unlimited, absent means the limit of the plan. */
  limit?: number | null;
  suspended: boolean;
}

/** Creates an account. */
export async function createAccount(
  { accounts }: Accounts,
  name: string,
  plan: AccountDocument['plan'],
): Promise<{ id: string }> {
  return { id: await accounts.create(name, plan) };
}

/** Lists accounts in order of id: those with some ids, or all. */
export async function listAccounts(
  { accounts }: Accounts,
  query: PageQuery & { ids?: readonly string[] },
): Promise<Page<AccountView>> {
  const found = await accounts.list(query.cursor ?? '', query.limit, query.ids);
  return toPage(found.map(toAccountView), query, ({ id }) => id);
}

/**
 * Returns an account.
 *
 * @throws AdminError ACCOUNT_NOT_FOUND
 */
export async function getAccount({ accounts }: Accounts, id: string): Promise<AccountView> {
  return viewOrThrow(id, await accounts.find(id));
}

/**
 * Changes the name of an account.
 *
 * @throws AdminError ACCOUNT_NOT_FOUND
 */
export async function renameAccount(
  { accounts }: Accounts,
  id: string,
  name: string,
): Promise<AccountView> {
  return viewOrThrow(id, await accounts.rename(id, name));
}

/**
 * Sets the requests per minute of an account; null means unlimited.
 *
 * @throws AdminError ACCOUNT_NOT_FOUND
 */
export async function setRequestLimit(
  { accounts }: Accounts,
  id: string,
  limit: number | null,
): Promise<AccountView> {
  return viewOrThrow(id, await accounts.limit(id, limit));
}

/**
 * Suspends an account: the API rejects its requests.
 *
 * @throws AdminError ACCOUNT_NOT_FOUND
 */
export async function suspendAccount({ accounts }: Accounts, id: string): Promise<AccountView> {
  return viewOrThrow(id, await accounts.suspend(id));
}

/**
 * Ends the suspension of an account.
 *
 * @throws AdminError ACCOUNT_NOT_FOUND
 */
export async function resumeAccount({ accounts }: Accounts, id: string): Promise<AccountView> {
  return viewOrThrow(id, await accounts.resume(id));
}

function viewOrThrow(id: string, account: AccountDocument | undefined): AccountView {
  if (account !== undefined) return toAccountView(account);
  throw new AdminError('ACCOUNT_NOT_FOUND', `There is no account ${id}.`);
}

function toAccountView({ _id, name, plan, limit, suspendedAt }: AccountDocument): AccountView {
  const ownLimit = limit === undefined ? {} : { limit };
  return { id: _id, name, plan, ...ownLimit, suspended: suspendedAt !== undefined };
}
