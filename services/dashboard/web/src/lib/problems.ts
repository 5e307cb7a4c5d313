import type { Problem } from '../api/types.ts';
import { useGet } from '../api/use-get.ts';

/** Returns the faults that delay deliveries, from the live overview. It is not requested for them. */
export function useProblems(): Problem[] {
  return useGet('/overview', {}, { enabled: false }).data?.problems ?? [];
}
