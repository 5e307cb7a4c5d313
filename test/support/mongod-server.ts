import { startServer, type TestServer } from '../../packages/presence/test/start-server.ts';

/** A mongod of a test's own, by default on a free port, with a folder that goes with it. */
export function startMongod(givenPort?: number): Promise<TestServer> {
  // `npm test` has found it.
  const command = process.env.CARILLON_MONGOD ?? 'mongod';
  return startServer(
    command,
    ({ port, folder }) => [
      ...['--port', `${port}`, '--bind_ip', '127.0.0.1', '--dbpath', folder],
      ...['--wiredTigerCacheSizeGB', '0.25', '--quiet'],
    ],
    givenPort,
  );
}
