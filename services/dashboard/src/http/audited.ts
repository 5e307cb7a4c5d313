import type { Logger } from '@carillon/runtime/logger';
import type { AuditEntry } from '@carillon/store/audit';
import type { AuditFacts } from '@carillon/store/console-documents';
import type { Store } from '@carillon/store/store';
import { toConsoleError } from './errors.ts';

/** Runs actions between two entries of the audit log. */
export type Audited = ReturnType<typeof createAudited>;

/**
 * Creates the function that runs an action between two entries of the audit log: its begin, without which it is not
 * run, and its end.
 */
export function createAudited({ audit }: Pick<Store, 'audit'>, log: Pick<Logger, 'warn'>) {
  return async <T>(
    entry: AuditEntry,
    run: () => Promise<T>,
    factsOf: (result: T) => AuditFacts = () => ({}),
  ): Promise<T> => {
    const begun = await audit.begin(entry);
    const end = async (result: string, facts: AuditFacts): Promise<void> => {
      try {
        await audit.end(begun, entry, result, facts);
      } catch (err) {
        // The action has happened, and its begin is recorded.
        log.warn({ err, id: entry.requestId }, 'the audit log lacks the end of an action');
      }
    };
    let result: T;
    try {
      result = await run();
    } catch (thrown) {
      await end(toConsoleError(thrown).code, {});
      throw thrown;
    }
    await end('done', factsOf(result));
    return result;
  };
}
