import { readFileSync } from 'node:fs';
import type { ProviderChannelName, ProviderSecret } from '@carillon/core/credentials';
import { reasonOf, refused } from '../failure.ts';

/** A credential that was looked at closely enough to say that it can work. */
export interface Checked {
  channel: ProviderChannelName;
  secret: ProviderSecret;
  /** What may be shown of it. */
  about: Record<string, string>;
}

/** Reads a file that an owner names. @throws Failure */
export function readGiven(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw refused(`The file ${path} can't be read: ${reasonOf(error)}.`);
  }
}
