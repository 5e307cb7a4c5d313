import { failpoint } from '../packages/core/src/failpoint.ts';
import { median, type Row } from './table.ts';

const ROUNDS = 9;
const CALLS = 20_000_000;
/** A push passes about ten failpoints and costs some hundred thousand nanoseconds. */
const MAX_NANOSECONDS = 50;

/** Measures a failpoint of a process without FAILPOINTS. */
export function benchFailpoints(): Row[] {
  const rounds = Array.from({ length: ROUNDS }, measureNanoseconds);
  const value = median(rounds);
  return [{ what: 'failpoint, off', value, unit: 'ns', goal: { atMost: MAX_NANOSECONDS } }];
}

function measureNanoseconds(): number {
  const startedAt = performance.now();
  for (let call = 0; call < CALLS; call += 1) failpoint('sent');
  return ((performance.now() - startedAt) * 1e6) / CALLS;
}
