import type { OperatorAccounts, OperatorRole } from '@carillon/store/console-documents';
import type { ValidToken } from '@carillon/store/operator-tokens';
import type { Store } from '@carillon/store/store';
import { AdminError } from './admin-error.ts';
import { operatorName } from './operator-name.ts';
import { digestToken, newToken, requireAccounts } from './operators.ts';
import { type Page, type PageQuery, toPage } from './page.ts';

/** Maximum length of a token's name: with the word before it, the audit log can be searched for it. */
const MAX_NAME = 64;

/** Name of a token, as operators read it. */
export const tokenName = operatorName
  .min(1, 'Give a name.')
  .max(MAX_NAME, `A name has at most ${MAX_NAME} characters.`);
/** Roles of tokens: those of operators but `owner`, which only adds the management of operators. */
export const TOKEN_ROLES = ['viewer', 'operator', 'admin'] as const satisfies OperatorRole[];
/** Lifetime of a token in days. */
export const TOKEN_DAYS = { default: 90, max: 366 } as const;
/** Seconds of a day. */
export const DAY_SECONDS = 86_400;

/** Tells people and scanners of secrets what the text is. */
const PREFIX = 'cop_';
const OPERATOR_TOKEN = new RegExp(`^${PREFIX}[\\w-]{43}$`);

/** Operator token as operators see it: without its text. Times are unix milliseconds. */
export type OperatorTokenView = ReturnType<typeof toView>;

/** What a token is for. */
export interface NewOperatorToken {
  name: string;
  role: (typeof TOKEN_ROLES)[number];
  accounts: OperatorAccounts;
  /** Lifetime: at most that of {@link TOKEN_DAYS}. */
  seconds: number;
  /** Id of the operator who makes the token, which ends with its access; undefined on the command line. */
  by?: string;
}

/**
 * Creates an operator token.
 *
 * @returns its text, which is stored nowhere
 * @throws AdminError ACCOUNT_NOT_FOUND
 */
export async function createOperatorToken(
  store: Pick<Store, 'operatorTokens' | 'accounts'>,
  { seconds, ...grant }: NewOperatorToken,
): Promise<{ id: string; token: string }> {
  await requireAccounts(store, grant.accounts);
  const token = `${PREFIX}${newToken()}`;
  const id = await store.operatorTokens.create(digestToken(token), grant, seconds * 1_000);
  return { id, token };
}

/** Finds a token that works by its text; a text of another form is not looked up. */
export async function findOperatorToken(
  { operatorTokens }: Pick<Store, 'operatorTokens'>,
  text: string,
): Promise<ValidToken | undefined> {
  return OPERATOR_TOKEN.test(text) ? operatorTokens.find(digestToken(text)) : undefined;
}

/** Lists the tokens that work, in order of id. */
export async function listOperatorTokens(
  { operatorTokens }: Pick<Store, 'operatorTokens'>,
  query: PageQuery,
): Promise<Page<OperatorTokenView>> {
  const found = await operatorTokens.list(query.cursor ?? '', query.limit);
  return toPage(found.map(toView), query, ({ id }) => id);
}

/**
 * Revokes a token, which no request is accepted with from then on.
 *
 * @throws AdminError TOKEN_NOT_FOUND
 */
export async function revokeOperatorToken(
  { operatorTokens }: Pick<Store, 'operatorTokens'>,
  id: string,
): Promise<{ id: string }> {
  if (await operatorTokens.revoke(id)) return { id };
  throw new AdminError('TOKEN_NOT_FOUND', `There is no token ${id}, or it has ended.`);
}

function toView({ _id, name, role, accounts, maker, ...times }: ValidToken) {
  return {
    ...{ id: _id, name, role, accounts },
    /** Name of the operator who has made it; absent for tokens of the command line. */
    ...(maker !== undefined && { by: maker.name }),
    createdAt: times.createdAt.getTime(),
    expiresAt: times.expiresAt.getTime(),
    ...(times.lastUsedAt !== undefined && { lastUsedAt: times.lastUsedAt.getTime() }),
  };
}
