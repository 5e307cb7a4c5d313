import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  type Browser,
  type ConsoleUnderTest,
  createProgram,
  setUpOwner,
  startConsole,
} from './console-under-test.ts';

let started: ConsoleUnderTest;
let owner: Browser;

beforeAll(async () => {
  started = await startConsole();
  owner = await setUpOwner(started);
});
afterAll(() => started.stop());

async function createToken(fields: object = {}) {
  const body = { name: 'deploy', role: 'admin', accounts: 'all', ...fields };
  const created = await owner.post('/api/operators/tokens', body);
  expect(created.status).toBe(200);
  return { id: String(created.body.id), token: String(created.body.token) };
}

test('a token opens the admin API, and nothing else', async () => {
  const { token } = await createToken();
  const program = createProgram(started.url, token);
  expect(await program.get('/api/accounts')).toMatchObject({ status: 200, body: { items: [] } });
  expect(await program.get('/api/operators')).toMatchObject({ status: 404 });
  const authorization = `Bearer ${token}`;
  const direct = await fetch(`${started.url}/api/accounts`, { headers: { authorization } });
  expect(direct.status).toBe(401);
  expect((await owner.get('/api/v1/accounts')).status).toBe(401);
});
