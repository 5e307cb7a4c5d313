import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import { SUSPECTED_AFTER } from '@carillon/store/lapsed-claims';
import { describe, expect, test } from '@jest/globals';
import { createSuspectedBatch, sliceSize } from '../src/deliver/suspected-batch.ts';

const WORKER_FAILED = failureCode('worker-failed');
const MAX_CLAIMS = 200;

/** Fields of a batch in MongoDB between two claims. */
interface Stored {
  outcomes: Uint8Array;
  lapsed: number;
}

/**
 * Claims a batch until it is settled, each time in a new process.
 *
 * @param endsProcess whether processing these positions ends the process; `claim` counts from 0
 */
function claimUntilSettled(
  recipients: number,
  endsProcess: (positions: readonly number[], claim: number) => boolean,
): { claims: number; failed: number[]; left: number } {
  const stored: Stored = { outcomes: new Uint8Array(recipients), lapsed: SUSPECTED_AFTER };
  for (let claim = 0; claim < MAX_CLAIMS; claim += 1) {
    if (runClaim(stored, (positions) => endsProcess(positions, claim))) {
      const failed = [...stored.outcomes.keys()].filter(
        (position) => stored.outcomes[position] === WORKER_FAILED,
      );
      return {
        claims: claim + 1,
        failed,
        left: [...stored.outcomes].filter((code) => code === 0).length,
      };
    }
    stored.lapsed += 1;
  }
  throw new Error('never settled');
}

/** Runs one claim and stores what it saves; false: it ended the process. */
function runClaim(stored: Stored, endsProcess: (positions: readonly number[]) => boolean): boolean {
  const outcomes = Uint8Array.from(stored.outcomes);
  const pending = new Set([...outcomes.keys()].filter((position) => outcomes[position] === 0));
  const recordOutcome = (position: number, outcome: number) => {
    pending.delete(position);
    outcomes[position] = outcome;
  };
  const batch = createSuspectedBatch({ pending, outcomes, recordOutcome }, stored.lapsed);
  const save = () => Object.assign(stored, { outcomes: outcomes.slice(), lapsed: batch.lapsed() });
  if (batch.failCause()) save();
  while (batch.beginSlice()) {
    const slice = [...pending];
    if (endsProcess(slice)) return false;
    for (const position of slice) recordOutcome(position, OUTCOMES.sent);
    batch.endSlice();
    save();
  }
  batch.endSlices();
  return pending.size === 0;
}

test.each([
  [1_000, 500, 20],
  [1_000, 250, 20],
  [1_000, 125, 20],
  [1_000, 1, 25],
  [1, 1, 5],
])(
  '%i recipients after some lapsed claims are processed in slices of %i',
  (recipients, size, lapsed) => {
    const sizes = Array.from({ length: lapsed }, (_, more) =>
      sliceSize(recipients, SUSPECTED_AFTER + more),
    );
    expect(sizes).toContain(size);
  },
);

describe('a recipient that ends its process fails, and all others are processed', () => {
  test.each([
    [1, 0],
    [2, 1],
    [20, 7],
    [1_000, 0],
    [1_000, 623],
    [1_000, 999],
  ])('of %i that at %i', (recipients, cause) => {
    const { failed, left, claims } = claimUntilSettled(recipients, (positions) =>
      positions.includes(cause),
    );
    expect({ failed, left }).toEqual({ failed: [cause], left: 0 });
    expect(claims).toBeLessThanOrEqual(16);
  });

  test('two such recipients', () => {
    const causes = [3, 700];
    const { failed, left } = claimUntilSettled(1_000, (positions) =>
      causes.some((cause) => positions.includes(cause)),
    );
    expect({ failed, left }).toEqual({ failed: causes, left: 0 });
  });
});

test('a payload that ends every process fails for all recipients, after three of them', () => {
  const { failed, claims } = claimUntilSettled(1_000, () => true);
  expect(failed).toHaveLength(1_000);
  expect(claims).toBeLessThanOrEqual(30);
});

test.each([1, 2, 500, 1_000])(
  'five more kills for another reason fail none of %i recipients',
  (recipients) => {
    const { failed, left } = claimUntilSettled(recipients, (_, claim) => claim < 5);
    expect({ failed, left }).toEqual({ failed: [], left: 0 });
  },
);

test('deferred recipients come last, and only the one that ends its process fails', () => {
  const outcomes = new Uint8Array(3);
  const pending = new Set(outcomes.keys());
  const failed: number[] = [];
  const recordOutcome = (position: number) => {
    failed.push(position);
    pending.delete(position);
  };
  const batch = createSuspectedBatch({ pending, outcomes, recordOutcome }, SUSPECTED_AFTER + 7, [
    [0, 90, 1],
    [1, 50, 1],
  ]);
  const slices: number[][] = [];
  while (batch.beginSlice()) slices.push([...pending]);
  batch.endSlices();
  expect(slices).toEqual([[2], [1], [0]]);
  expect(batch.failCause()).toBe(true);
  expect(failed).toEqual([2]);
});

test('deferrals of other slices are saved with those of the current one', () => {
  const outcomes = new Uint8Array(4);
  const pending = new Set(outcomes.keys());
  const recordOutcome = (position: number) => void pending.delete(position);
  const batch = createSuspectedBatch({ pending, outcomes, recordOutcome }, SUSPECTED_AFTER, [
    [3, 90, 2],
  ]);
  batch.beginSlice();
  expect([...pending]).toEqual([0, 1]);
  expect(batch.mergeDeferred([[1, 50, 1]])).toEqual([
    [3, 90, 2],
    [1, 50, 1],
  ]);
  batch.endSlice();
  batch.beginSlice();
  expect([...pending]).toEqual([2, 3]);
  expect(batch.mergeDeferred([])).toEqual([[1, 50, 1]]);
  batch.endSlices();
  expect([...pending]).toEqual([0, 1, 2, 3]);
});
