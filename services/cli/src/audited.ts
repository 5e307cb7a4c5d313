import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { AdminError } from '@carillon/admin/admin-error';
import { ApiError } from '@carillon/core/api-error';
import type { AuditEntry } from '@carillon/store/audit';
import type { AuditFacts } from '@carillon/store/console-documents';
import type { Store } from '@carillon/store/store';

/** Operator in the audit log's entries of commands. */
export const COMMAND_LINE = { id: 'command-line', name: 'carillon command' };

/** Runs a command's change between two entries of the audit log, as the console does. */
export async function runAudited<T>(
  { audit }: Pick<Store, 'audit'>,
  change: Pick<AuditEntry, 'action' | 'account' | 'facts'>,
  run: () => Promise<T>,
): Promise<T> {
  const origin = { actor: COMMAND_LINE, address: hostname(), requestId: randomUUID() };
  const entry = { ...change, ...origin };
  const begun = await audit.begin(entry);
  // Without its end the begin is still recorded.
  const end = (code: string, facts: AuditFacts = {}) =>
    audit.end(begun, entry, code, facts).catch(() => undefined);
  let result: T;
  try {
    result = await run();
  } catch (error) {
    await end(describeFailure(error));
    throw error;
  }
  await end('done', listFacts(result));
  return result;
}

/** The id of what a change has created. */
function listFacts(result: unknown): AuditFacts {
  const { id } = (result ?? {}) as { id?: unknown };
  return typeof id === 'string' ? { id } : {};
}

function describeFailure(error: unknown): string {
  if (error instanceof ApiError) return error.code;
  if (!(error instanceof AdminError)) return 'INTERNAL';
  return error.code.endsWith('_NOT_FOUND') ? 'NOT_FOUND' : error.code;
}
