import { findOperatorToken } from '@carillon/admin/operator-tokens';
import type { Store } from '@carillon/store/store';
import type { SessionOperator } from './route.ts';

const BEARER = /^Bearer +(\S+)$/i;

/** Finds the operator token of a request by its header Authorization; undefined when there is none or it has ended. */
export type ReadToken = ReturnType<typeof createTokenReader>;

/** Creates the reader of operator tokens, which MongoDB is asked for at each request, so that one ends at once. */
export function createTokenReader(store: Pick<Store, 'operatorTokens'>) {
  return async (authorization: string | undefined): Promise<SessionOperator | undefined> => {
    const [, text] = BEARER.exec(authorization ?? '') ?? [];
    const found = text === undefined ? undefined : await findOperatorToken(store, text);
    if (found === undefined) return undefined;
    if (found.isStale) await store.operatorTokens.touch(found._id);
    const { _id: id, name, role, accounts } = found;
    return { id, name: `token ${name}`, role, accounts };
  };
}
