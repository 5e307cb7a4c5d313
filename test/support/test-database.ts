import { type Db, MongoClient } from 'mongodb';
import { type CliResult, runCarillon } from '../../services/cli/test/run-carillon.ts';
import { startDatabase } from './own-database.ts';

/** A MongoDB without a stack, and the command line for it. */
export interface TestDatabase {
  db: Db;
  uri: string;
  /** Runs `carillon ARGS`. */
  run(...args: string[]): Promise<CliResult>;
  /** Runs `carillon --json ARGS` and returns its output; `T` is what the test expects. */
  runJson<T>(...args: string[]): Promise<T>;
  stop(): Promise<void>;
}

/**
 * Starts it, with the indexes that every stack has.
 *
 * @param variables added to the environment of a MongoDB of its own
 */
export async function startTestDatabase(variables?: Record<string, string>): Promise<TestDatabase> {
  const { uri: MONGODB_URI, stop } = await startDatabase(variables);
  const client = await new MongoClient(MONGODB_URI).connect();
  const run = (...args: string[]) => runCarillon(args, { env: { MONGODB_URI } });
  await run('migrate');
  return {
    db: client.db(),
    uri: MONGODB_URI,
    run,
    async runJson<T>(...args: string[]) {
      return JSON.parse((await run('--json', ...args)).out) as T;
    },
    async stop() {
      await client.close();
      await stop();
    },
  };
}
