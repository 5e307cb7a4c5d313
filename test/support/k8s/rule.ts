import type { Manifest } from './manifest.ts';

/** A rule that all rendered manifests obey. */
export interface Rule {
  name: string;
  /** Returns a sentence for each violation of the rule. */
  check(manifests: readonly Manifest[]): string[];
}

/** Lists the sentences whose condition is false. */
export function listBroken(conditions: Readonly<Record<string, boolean>>): string[] {
  return Object.entries(conditions)
    .filter(([, holds]) => !holds)
    .map(([sentence]) => sentence);
}
