import type { Refusal } from './import-state.ts';

/** Refused lines with one reason. */
export interface RefusedLines extends Refusal {
  /** Number of lines; `line` and `reason` are those of the first. */
  lines: number;
}

/** Maximum reasons that are listed. A quoted value in front of others would make each line a reason of its own. */
const MAX_REASONS = 100;
const OTHERS = 'other reasons';

/** Counts refused lines by reason, without the values that a reason quotes at its end. */
export function createRefusalSummary() {
  const byReason = new Map<string, RefusedLines>();
  return {
    add(refusals: readonly Refusal[]): void {
      for (const { line, reason } of refusals) {
        const [kind = reason] = reason.split(': "', 1);
        const isListed = byReason.has(kind) || byReason.size < MAX_REASONS;
        const known = byReason.get(isListed ? kind : OTHERS);
        if (known !== undefined) known.lines += 1;
        else if (isListed) byReason.set(kind, { reason, lines: 1, line });
        else byReason.set(OTHERS, { reason: OTHERS, lines: 1, line });
      }
    },
    /** Lists them, the most frequent first. */
    list: (): RefusedLines[] => [...byReason.values()].sort((a, b) => b.lines - a.lines),
  };
}
