import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTemporaryFolder } from '../../../test/support/temporary-folder.ts';
import type { SchemaDocument } from '../src/documents.ts';
import { SCATTERED_STATEMENTS } from '../src/scattered-statements.ts';
import { REQUIRED_SCHEMA_VERSION } from '../src/schema.ts';
import { SHARD_KEYS, UNSHARDED } from '../src/shard-keys.ts';
import type { RecordedShape, StatementRecord } from '../src/statement-recorder.ts';
import { connectStore } from '../src/store.ts';
import { UNREPEATED_STATEMENTS } from '../src/unrepeated-statements.ts';
import { CONSOLE_WRITE_CASES } from './console-write-cases.ts';
import { FAILURE_READ_CASES, FAILURE_WRITE_CASES } from './failure-cases.ts';
import { PUSH_WRITE_CASES } from './push-write-cases.ts';
import { READ_CASES } from './read-cases.ts';
import { type Case, REGISTRATION_WRITE_CASES } from './registration-write-cases.ts';
import { type StoreUnderTest, startStore } from './store-under-test.ts';
import { WEBHOOK_WRITE_CASES } from './webhook-write-cases.ts';

const WRITE_CASES = {
  ...REGISTRATION_WRITE_CASES,
  ...PUSH_WRITE_CASES,
  ...FAILURE_WRITE_CASES,
  ...CONSOLE_WRITE_CASES,
  ...WEBHOOK_WRITE_CASES,
};

let under: StoreUnderTest;
let folders: string;
beforeAll(async () => {
  under = await startStore();
  folders = createTemporaryFolder();
});
afterAll(() => under?.stop());

/** The cases of each function: one for each way that sends other statements. */
function listCases(): [name: string, cases: Case[]][] {
  const reads = Object.entries({ ...READ_CASES, ...FAILURE_READ_CASES });
  return [
    ...reads.map(([name, call]): [string, Case[]] => [name, [{ call }]]),
    ...Object.entries(WRITE_CASES).map(([name, cases]): [string, Case[]] => [
      name,
      'call' in cases ? [cases as Case] : Object.values(cases),
    ]),
  ];
}

/** Sends such a statement only in a race of two calls, which no case here has. */
const SELDOM = 'imports.importDevices';

/** It begins with a random type of document, and ends with the first type that has any. */
const RANDOM = { name: 'outbox.claim', calls: 30 };

/** Calls a function of the store on the documents of its case, and returns the statements that it has sent. */
async function recordCase({ given, call }: Case, folder: string): Promise<RecordedShape[]> {
  await under.clear();
  const schema = under.db.collection<SchemaDocument>('schema');
  await schema.insertOne({ _id: 'schema', version: REQUIRED_SCHEMA_VERSION });
  await given?.(under.db);
  const store = await connectStore({ uri: under.uri, appName: 'test', recordTo: folder });
  try {
    await call(store);
  } finally {
    await store.close();
  }
  return readShapes(folder);
}

function readShapes(folder: string): RecordedShape[] {
  return readdirSync(folder).flatMap((name) => {
    const record = JSON.parse(readFileSync(join(folder, name), 'utf8')) as StatementRecord;
    return record.shapes;
  });
}

/** Shapes of the statements of each function. */
let shapesOf: ReadonlyMap<string, readonly RecordedShape[]>;
beforeAll(async () => {
  const found = new Map<string, RecordedShape[]>();
  for (const [index, [name, cases]] of listCases().entries()) {
    const shapes: RecordedShape[] = [];
    const calls = name === RANDOM.name ? RANDOM.calls : 1;
    const repeated = Array.from({ length: calls }, () => cases).flat();
    for (const [n, one] of repeated.entries())
      shapes.push(...(await recordCase(one, join(folders, `${index}-${n}`))));
    found.set(name, shapes);
  }
  shapesOf = found;
}, 300_000);

test('no statement is one that a sharded cluster refuses', () => {
  const unfit = [...shapesOf].flatMap(([name, shapes]) =>
    shapes.flatMap(({ shape, target }) =>
      target === 'refused' || target === 'unknown' ? [`${name}: ${shape} is ${target}`] : [],
    ),
  );
  expect(unfit).toEqual([]);
});

test('each function of the store sends statements for the shards of their keys, or is listed', () => {
  const scattered: Record<string, string[]> = {};
  for (const [name, shapes] of shapesOf) {
    const toAll = shapes.filter(({ target }) => target === 'all').map(({ shape }) => shape);
    if (toAll.length > 0) scattered[name] = [...new Set(toAll)].sort();
  }
  const listed = Object.entries(SCATTERED_STATEMENTS).map(([name, { statements }]) => [
    name,
    statements.toSorted(),
  ]);
  expect(scattered).toEqual(Object.fromEntries(listed));
});

test('each function that changes many documents at once is listed with the caller that repeats it', () => {
  const isOfMany = ({ shape }: RecordedShape) => /^(update|delete)Many /.test(shape);
  const names = [...shapesOf].flatMap(([name, shapes]) => (shapes.some(isOfMany) ? [name] : []));
  expect([...names, SELDOM].sort()).toEqual(Object.keys(UNREPEATED_STATEMENTS).sort());
});

test('each collection has a shard key or a reason to have none', async () => {
  const collections = await under.db.listCollections({}, { nameOnly: true }).toArray();
  const names = collections.map(({ name }) => name).filter((name) => !name.startsWith('system.'));
  const known = [...Object.keys(SHARD_KEYS), ...Object.keys(UNSHARDED)];
  expect(names.filter((name) => !known.includes(name))).toEqual([]);
  expect(new Set(known).size).toBe(known.length);
});
