import type { ProxyWarning } from '@carillon/core/proxy-warnings';
import type { Db } from 'mongodb';
import type { ProxyWarningDocument } from './documents.ts';

/** Proxies that processes have detected and their settings don't name; one document for each kind of warning. */
export function createProxyWarnings(db: Db) {
  const warnings = db.collection<ProxyWarningDocument>('proxy_warnings');
  return {
    /** Records that a process has detected it now, by MongoDB's clock. */
    async record(warning: ProxyWarning): Promise<void> {
      await warnings.updateOne({ _id: warning }, { $currentDate: { at: true } }, { upsert: true });
    },
    /** Lists the warnings of the last `withinMs`. */
    listRecent: (withinMs: number): Promise<ProxyWarningDocument[]> =>
      warnings
        .find({ $expr: { $gt: ['$at', { $subtract: ['$$NOW', withinMs] }] } })
        .sort({ _id: 1 })
        .toArray(),
  };
}
