import type { Resources } from './measured.ts';

/** Adds up amounts, each multiplied by a number. */
export function sumOf(...terms: readonly (readonly [number, Resources])[]): Resources {
  const sum: Resources = {};
  for (const [factor, resources] of terms)
    for (const [name, amount] of Object.entries(resources))
      sum[name] = (sum[name] ?? 0) + factor * amount;
  return sum;
}

/** Replaces negative amounts by 0: the measurement cannot distinguish them from zero. */
export function withoutNegative(resources: Resources): Resources {
  return mapResources(resources, (_, amount) => Math.max(0, amount));
}

/** Changes each amount. */
export function mapResources(
  resources: Resources,
  change: (name: string, amount: number) => number,
): Resources {
  return Object.fromEntries(
    Object.entries(resources).map(([name, amount]) => [name, change(name, amount)]),
  );
}

/** Returns one amount; 0 if it was not used. */
export function amountOf(resources: Resources, name: string): number {
  return resources[name] ?? 0;
}
