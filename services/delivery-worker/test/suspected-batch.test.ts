import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import type { Batch } from '@carillon/store/documents';
import { describe, expect, test } from '@jest/globals';
import { createSuspectedBatch, MAX_ATTEMPTS } from '../src/deliver/suspected-batch.ts';

const WORKER_FAILED = failureCode('worker-failed');

/** Fields of a batch in MongoDB between two claims. */
type Stored = { outcomes: Uint8Array } & Pick<Batch, 'trying' | 'later'>;

/** Result of trying a recipient; undefined means that it is sent to. */
type Attempt = (position: number, claim: number) => 'end' | 'defer' | undefined;

function claimBatch(stored: Stored) {
  const outcomes = Uint8Array.from(stored.outcomes);
  const pending = new Set([...outcomes.keys()].filter((position) => outcomes[position] === 0));
  const recordOutcome = (position: number, outcome: number) => {
    pending.delete(position);
    outcomes[position] = outcome;
  };
  const recordRemaining = (outcome: number) => {
    for (const position of [...pending]) recordOutcome(position, outcome);
  };
  const batchOutcomes = { pending, outcomes, recordOutcome, recordRemaining };
  return { ...batchOutcomes, batch: createSuspectedBatch(batchOutcomes, stored) };
}

/**
 * Runs one claim and stores what it saves.
 *
 * @returns false if the claim ended the process
 */
function runClaim(stored: Stored, attempt: Attempt, claim: number): boolean {
  const { batch, pending, outcomes, recordOutcome } = claimBatch(stored);
  const save = () => {
    stored.outcomes = outcomes.slice();
    stored.trying = batch.trying();
  };
  if (batch.failCause()) save();
  for (const position of batch.listDue(0)) {
    batch.beginTry(position);
    expect([...pending]).toEqual([position]);
    save();
    const end = attempt(position, claim);
    if (end === 'end') return false;
    if (end === undefined) recordOutcome(position, OUTCOMES.sent);
    batch.endTry(false);
    save();
  }
  expect([...pending]).toEqual([...pending].sort((a, b) => a - b));
  return pending.size === 0;
}

/** Claims a batch until it is settled. Returns the number of claims that ended their process, and who has failed. */
function claimUntilSettled(
  recipients: number,
  attempt: Attempt,
): { ends: number; failed: number[] } {
  const stored: Stored = { outcomes: new Uint8Array(recipients) };
  let ends = 0;
  while (!runClaim(stored, attempt, ends)) ends += 1;
  const failed = [...stored.outcomes.keys()].filter(
    (position) => stored.outcomes[position] === WORKER_FAILED,
  );
  return { ends, failed };
}

describe('recipients that end their process each time fail alone', () => {
  test.each([
    [1, [0]],
    [20, [7]],
    [1_000, [0]],
    [1_000, [999]],
    [1_000, [3, 700]],
    [3, [0, 1]],
  ])('of %i those at %j', (recipients, causes) => {
    const attempt: Attempt = (position) => (causes.includes(position) ? 'end' : undefined);
    const ends = causes.length * MAX_ATTEMPTS;
    expect(claimUntilSettled(recipients, attempt)).toEqual({ ends, failed: causes });
  });
});

test('a payload that ends every process fails for all recipients, after three of them', () => {
  const { ends, failed } = claimUntilSettled(1_000, () => 'end');
  expect(failed).toHaveLength(1_000);
  expect(ends).toBe(3 * MAX_ATTEMPTS);
});

test.each([1, 2, 1_000])(
  'five ends for another reason fail none of %i recipients',
  (recipients) => {
    const attempt: Attempt = (_, claim) => (claim < MAX_ATTEMPTS - 1 ? 'end' : undefined);
    expect(claimUntilSettled(recipients, attempt).failed).toEqual([]);
  },
);

test('attempts at a recipient are in a row, also beside one that is deferred', () => {
  const attempt: Attempt = (position, claim) => {
    if (position === 0) return claim < MAX_ATTEMPTS ? 'defer' : undefined;
    return position === 2 ? 'end' : undefined;
  };
  expect(claimUntilSettled(3, attempt)).toEqual({ ends: MAX_ATTEMPTS, failed: [2] });
});

test('a recipient with an outcome leaves its attempts to no other', () => {
  const outcomes = Uint8Array.of(OUTCOMES.delivered, OUTCOMES.pending);
  const { batch, pending } = claimBatch({ outcomes, trying: { position: 0, attempts: 6 } });
  expect(batch.failCause()).toBe(false);
  batch.beginTry(1);
  expect(batch.trying()).toEqual({ position: 1, attempts: 1 });
  batch.endTry(true);
  expect(batch.trying()).toEqual({ position: 1, attempts: 1 });
  expect([...pending]).toEqual([1]);
});

test('deferrals of other recipients are saved with those of the current one', () => {
  const { batch } = claimBatch({ outcomes: new Uint8Array(4), later: [[3, 90, 2]] });
  batch.beginTry(1);
  expect(batch.mergeDeferred([[1, 50, 1]])).toEqual([
    [3, 90, 2],
    [1, 50, 1],
  ]);
  batch.endTry(false);
  batch.beginTry(3);
  expect(batch.mergeDeferred(undefined)).toHaveLength(2);
  expect(batch.mergeDeferred([])).toEqual([[1, 50, 1]]);
});

test('recipients follow the one that was tried last, and deferred ones are left out until they are due', () => {
  const outcomes = new Uint8Array(4);
  const { batch } = claimBatch({
    ...{ outcomes, trying: { position: 1, attempts: 0 } },
    later: [[3, 90, 1]],
  });
  expect([batch.listDue(50), batch.untilDueMs(50)]).toEqual([[2, 0, 1], 40]);
  expect([batch.listDue(90), batch.untilDueMs(90)]).toEqual([[2, 3, 0, 1], 0]);
});
