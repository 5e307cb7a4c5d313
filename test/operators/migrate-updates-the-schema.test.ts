import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startTestDatabase, type TestDatabase } from '../support/test-database.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await startTestDatabase();
});
afterAll(() => database?.stop());

test('migrate prints one JSON value, and changes nothing the second time', async () => {
  const result = await database.runJson('migrate');
  const servers = 'one server, which nothing replaces when it fails';
  expect(result).toEqual({ migrated: true, servers, version: 1, steps: [], indexes: [] });
});

test('migrate --check exits with 0 while the schema is up to date, also with --json', async () => {
  expect(await database.run('migrate', '--check')).toEqual({
    code: 0,
    out: 'The schema is up to date: version 1.\n',
    err: '',
  });
  expect(await database.runJson('migrate', '--check')).toMatchObject({ current: true, steps: [] });
});

test('migrate --check exits with 1 while a step or an index is missing, and changes nothing', async () => {
  await database.db.collection('schema').drop();
  await database.db.collection('keys').dropIndex('digest_1');
  for (const _ of ['first', 'second']) {
    const { code, out, err } = await database.run('--json', 'migrate', '--check');
    expect({ code, ...JSON.parse(out) }).toEqual({
      ...{ code: 1, current: false, version: 0, latest: 1 },
      ...{ steps: [1], indexes: ['keys(digest)'] },
    });
    expect(err).toMatch(/^The schema has version 0 of 1, 1 step to run\. .*carillon migrate\.\n$/);
  }
});

test('doctor names the schema that is behind', async () => {
  const { code, out } = await database.run('doctor');
  expect(code).toBe(1);
  expect(out).toMatch(/^FAIL {2}mongodb schema +version 0, and this release has 1; run carillon/m);
  await database.run('migrate');
  expect((await database.run('doctor')).out).toMatch(/^ok {4}mongodb schema +version 1$/m);
});
