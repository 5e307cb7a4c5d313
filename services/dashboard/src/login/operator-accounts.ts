import { z } from 'zod';
import { objectId } from '../http/inputs.ts';

/** Maximum accounts that an operator or a token is limited to. */
const MAX_ACCOUNTS = 200;

/** Accounts of an operator or a token. */
export const operatorAccounts = z.union([z.literal('all'), z.array(objectId).max(MAX_ACCOUNTS)]);

/** Describes accounts in the audit log. */
export function describeAccounts(given: z.infer<typeof operatorAccounts>): string {
  return given === 'all' ? given : given.join(',');
}
