import { startServer, type TestServer } from '../../packages/presence/test/start-server.ts';

/** Names the port of the mongod that the test files of a run share. */
export const SHARED_PORT = 'CARILLON_TEST_MONGOD_PORT';

/**
 * A mongod of a test's own, by default on a free port, with a folder that goes with it.
 *
 * @param variables added to its environment
 */
export function startMongod(
  givenPort?: number,
  variables: Record<string, string> = {},
): Promise<TestServer> {
  // `npm test` has found it.
  const mongod = process.env.CARILLON_MONGOD ?? 'mongod';
  return startServer(
    'env',
    ({ port, folder }) => [
      ...Object.entries(variables).map(([name, value]) => `${name}=${value}`),
      mongod,
      ...['--port', `${port}`, '--bind_ip', '127.0.0.1', '--dbpath', folder],
      ...['--wiredTigerCacheSizeGB', '0.25', '--quiet'],
      // Samples that are never read, each second.
      ...['--setParameter', 'diagnosticDataCollectionEnabled=false'],
    ],
    givenPort,
  );
}

/**
 * Starts a mongod for the tests of this process and of those that it starts: `startDatabase` finds it.
 *
 * @returns a function that stops it
 */
export async function shareMongod(): Promise<() => Promise<void>> {
  const { port, stop } = await startMongod();
  process.env[SHARED_PORT] = `${port}`;
  return async () => {
    delete process.env[SHARED_PORT];
    await stop();
  };
}
