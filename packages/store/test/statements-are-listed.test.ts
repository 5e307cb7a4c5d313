import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { MongoClient } from 'mongodb';
import { type OwnDatabase, startDatabase } from '../../../test/support/own-database.ts';
import { migrate } from '../src/schema.ts';
import { ROOMS, type Room, readStatementLists } from './statement-lists.ts';

/** Set by `npm run docs:statements`, which writes the lists. */
const IS_WRITING = process.env.WRITE_STATEMENTS === '1';

let database: OwnDatabase;
let lists: Record<Room, string>;
beforeAll(async () => {
  database = await startDatabase();
  const direct = await new MongoClient(database.uri).connect();
  try {
    await migrate(direct.db());
    lists = await readStatementLists(direct.db(), database.uri);
  } finally {
    await direct.close();
  }
}, 300_000);
afterAll(() => database?.stop());

test.each(ROOMS)(
  'packages/%s/statements.txt lists the statements that each function sends',
  (room) => {
    const file = new URL(`../../${room}/statements.txt`, import.meta.url);
    if (IS_WRITING) writeFileSync(file, lists[room]);
    expect(lists[room]).toBe(readFileSync(file, 'utf8'));
  },
);
