import { MongoClient } from 'mongodb';
import { SHARED_PORT, startMongod } from './mongod-server.ts';

/** A database that a test has to itself. */
export interface OwnDatabase {
  uri: string;
  stop(): Promise<void>;
}

let databases = 0;

/**
 * Returns an empty database: on the mongod that test files share, if there is one, and else on a new one. A test that
 * stops or freezes its mongod, or reads the status of the whole server, uses {@link startMongod}.
 *
 * @param variables for the environment of mongod, which is a new one then
 */
export async function startDatabase(variables?: Record<string, string>): Promise<OwnDatabase> {
  const sharedPort = process.env[SHARED_PORT];
  if (sharedPort === undefined || variables !== undefined) {
    const { port, stop } = await startMongod(undefined, variables);
    return { uri: uriOf(port, 'test'), stop };
  }
  databases += 1;
  // The files of a Jest worker run one after the other.
  const uri = uriOf(Number(sharedPort), `worker${process.env.JEST_WORKER_ID}-${databases}`);
  // Of a test file before this one that could not clean up.
  await dropDatabase(uri);
  return { uri, stop: () => dropDatabase(uri) };
}

const uriOf = (port: number, name: string) => `mongodb://127.0.0.1:${port}/${name}`;

async function dropDatabase(uri: string): Promise<void> {
  const client = await new MongoClient(uri).connect();
  await client.db().dropDatabase();
  await client.close();
}
