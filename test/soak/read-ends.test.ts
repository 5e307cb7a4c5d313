import { expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import { OUTCOMES } from '../../packages/core/src/outcomes.ts';
import type { Batch } from '../../packages/store/src/documents.ts';
import { type OpenExport, readExport } from './read-api.ts';
import { describeStored, joinBatches } from './read-stored.ts';

async function* inPieces(...pieces: (string | Uint8Array | Error)[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) {
    if (piece instanceof Error) throw piece;
    yield typeof piece === 'string' ? new TextEncoder().encode(piece) : piece;
  }
}

/** Reads an export that gets these responses; returns its rows, and behind which rows it was requested. */
async function readRows(...responses: (AsyncGenerator<Uint8Array> | Error | undefined)[]) {
  const requested: (string | undefined)[] = [];
  const open: OpenExport = async (after) => {
    requested.push(after);
    const response = responses.shift();
    if (response instanceof Error) throw response;
    return response;
  };
  const rows: { id: string }[] = [];
  await readExport<{ id: string }>(
    open,
    ({ id }) => id,
    (row) => rows.push(row),
  );
  return { rows: rows.map(({ id }) => id), requested };
}

const END = '{"complete":true}\n';

async function* iterate<T>(...list: T[]): AsyncGenerator<T> {
  yield* list;
}

/** A closed batch whose recipients have these outcomes. */
const batchOf = (outcomes: Record<string, number>, fields: Partial<Batch> = {}): Batch => ({
  ...{ state: 'closed', channel: 'mqtt', at: new Date(0), tries: 1 },
  ...{ n: Object.keys(outcomes).length, tokens: Object.keys(outcomes).join(' ') },
  outcomes: new Binary(Buffer.from(Object.values(outcomes))),
  ...fields,
});

test('rows of an export may arrive in any pieces', async () => {
  const bytes = new TextEncoder().encode(`{"id":"ä"}\n{"id":"b"}\n${END}`);
  const pieces = [...bytes].map((byte) => Uint8Array.of(byte));
  expect((await readRows(inPieces(...pieces))).rows).toEqual(['ä', 'b']);
});

test('an export that was cut is continued behind its last complete row', async () => {
  const { rows, requested } = await readRows(
    new Error('429'),
    inPieces('{"id":"a"}\n{"id":"b"}\n{"id":', new Error('reset')),
    // This one ends as if it were complete.
    inPieces('{"id":"c"}\n{"id":"d"}'),
    inPieces(`{"id":"d"}\n${END}`),
  );
  expect(rows).toEqual(['a', 'b', 'c', 'd']);
  expect(requested).toEqual([undefined, undefined, 'b', 'c']);
});

test('an export ends where the API shows no more, and where recipients are still being added', async () => {
  expect((await readRows(undefined)).rows).toEqual([]);
  expect((await readRows(inPieces('{"id":"a"}\n{"complete":false}\n'))).rows).toEqual(['a']);
});

test('batches are joined with their pushes, and those of other pushes are left out', async () => {
  const pushes = iterate({ _id: '1' }, { _id: '3' }, { _id: '4' }, { _id: '5' });
  const batches = iterate(
    ...['1-0', '1-1', '2-0', '4-0', '6-0'].map((_id) => ({ _id, push: _id.slice(0, 1) })),
  );
  const joined: [string, string[]][] = [];
  for await (const { push, batches: own } of joinBatches(pushes, batches))
    joined.push([push._id, own.map(({ _id }) => _id)]);
  expect(joined).toEqual([
    ['1', ['1-0', '1-1']],
    ['3', []],
    ['4', ['4-0']],
    ['5', []],
  ]);
});

test('a stored push is described by its batch or its batches', () => {
  const work = batchOf({ a: OUTCOMES.delivered, b: OUTCOMES.expired });
  const counts = { delivered: 1, expired: 1 };
  const described = { counts, recipients: { a: 'delivered', b: 'expired' } };
  expect(describeStored({ counts, work }, [], ['a', 'b'])).toEqual(described);
  const batches = [
    { work: batchOf({ a: OUTCOMES.delivered }) },
    { work: batchOf({ b: OUTCOMES.expired }) },
  ];
  expect(describeStored({ counts }, batches, ['a', 'b'])).toEqual(described);
  // A receipt that came after the settlement, and a recipient that is in no batch.
  const late = batchOf({ a: OUTCOMES.inbox }, { got: { 0: 1 } });
  const other = describeStored({ counts: { delivered: 1 }, work: late }, [], ['a', 'c']);
  expect(other?.recipients).toEqual({ a: 'delivered', c: 'none' });
});

test('a stored push that is open, has an inbox row or is soon removed is not described by its documents', () => {
  const work = batchOf({ a: OUTCOMES.delivered });
  const counts = { delivered: 1 };
  const describe = (fields: Parameters<typeof describeStored>[0]) =>
    describeStored(fields, [], ['a']);
  expect(describe({ counts, work, purgeAt: new Date(Date.now() + 3_600_000) })).toBeDefined();
  expect(describe({ work })).toBeUndefined();
  expect(describe({ counts, work: batchOf({ a: OUTCOMES.inbox }) })).toBeUndefined();
  expect(describe({ counts, work, purgeAt: new Date() })).toBeUndefined();
});
