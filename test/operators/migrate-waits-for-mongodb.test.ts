import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestServer } from '../../packages/presence/test/start-server.ts';
import { startProcess } from '../support/child-process.ts';
import { startMongod } from '../support/mongod-server.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const MAIN = 'services/cli/src/main.ts';

let mongod: TestServer;
let proxy: TcpProxy;
beforeAll(async () => {
  mongod = await startMongod();
  proxy = await startTcpProxy(mongod.port);
});
afterAll(async () => {
  await proxy?.stop();
  await mongod?.stop();
});

function startMigrate(...options: string[]) {
  const MONGODB_URI = `mongodb://127.0.0.1:${proxy.port}/carillon`;
  const env = { PATH: process.env.PATH ?? '', MONGODB_URI };
  return startProcess(process.execPath, [MAIN, 'migrate', ...options], { env });
}

test('migrate --wait continues when MongoDB can be reached, and without --wait migrate fails at once', async () => {
  proxy.cut();
  expect(await startMigrate().exited).toBe(3);
  const waiting = startMigrate('--wait', '5m');
  const isWaiting = () => waiting.output().includes('Waiting for it.');
  await until(isWaiting, { timeoutMs: 30_000, what: 'a migration that waits' });
  proxy.restore();
  expect(await waiting.exited).toBe(0);
  expect(waiting.output()).toContain('The database is up to date.');
}, 90_000);
