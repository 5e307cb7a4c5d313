import { ENVIRONMENT_RULES } from './environment-rules.ts';
import type { Manifest } from './manifest.ts';
import { NETWORK_RULES } from './network-rules.ts';
import { POD_RULES } from './pod-rules.ts';
import { SCALING_RULES } from './scaling-rules.ts';

export const RULES = [...POD_RULES, ...ENVIRONMENT_RULES, ...SCALING_RULES, ...NETWORK_RULES];

/** Checks rendered manifests by all rules: a line for each violation, with the rule's name. */
export function checkManifests(manifests: readonly Manifest[]): string[] {
  return RULES.flatMap(({ name, check }) =>
    check(manifests).map((sentence) => `${name}: ${sentence}`),
  );
}
