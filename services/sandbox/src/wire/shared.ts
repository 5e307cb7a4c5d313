import type { Conducts } from '../answer/conduct.ts';
import type { Scripts } from '../answer/scripts.ts';
import type { Files } from '../files/ensure-files.ts';
import type { Journal } from '../record/journal.ts';

/** What the three providers have in common. */
export interface Shared {
  files: Files;
  journal: Journal;
  scripts: Scripts;
  conducts: Conducts;
  /** The name by which clients reach them. */
  host: string;
}
