import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { MongoClient } from 'mongodb';
import { startMongod } from '../../../test/support/mongod-server.ts';
import type { TestServer } from '../../presence/test/start-server.ts';
import { migrate } from '../src/schema.ts';
import { ROOMS, type Room, readStatementLists } from './statement-lists.ts';

/** Set by `npm run docs:statements`, which writes the lists. */
const IS_WRITING = process.env.WRITE_STATEMENTS === '1';

let mongod: TestServer;
let lists: Record<Room, string>;
beforeAll(async () => {
  mongod = await startMongod();
  const uri = `mongodb://127.0.0.1:${mongod.port}/statements`;
  const direct = await new MongoClient(uri).connect();
  try {
    await migrate(direct.db());
    lists = await readStatementLists(direct.db(), uri);
  } finally {
    await direct.close();
  }
}, 120_000);
afterAll(() => mongod?.stop());

test.each(ROOMS)(
  'packages/%s/statements.txt lists the statements that each function sends',
  (room) => {
    const file = new URL(`../../${room}/statements.txt`, import.meta.url);
    if (IS_WRITING) writeFileSync(file, lists[room]);
    expect(lists[room]).toBe(readFileSync(file, 'utf8'));
  },
);
