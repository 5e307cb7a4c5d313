import { afterAll, beforeAll } from '@jest/globals';
import { type Db, MongoClient } from 'mongodb';

/** A connection of its own whose statements are listed. */
interface ListedStatements {
  db: Db;
  /** Runs calls and returns their statements in order, each as `command collection`. */
  of(run: () => Promise<unknown>): Promise<string[]>;
}

/** Connects to the database of a test file, and lists the statements that are sent over this connection. */
export function useStatements(under: { uri: string }): ListedStatements {
  let client: MongoClient;
  let statements: string[] = [];
  beforeAll(async () => {
    client = new MongoClient(under.uri, { monitorCommands: true });
    client.on('commandStarted', ({ commandName, command }) =>
      statements.push(`${commandName} ${command[commandName]}`),
    );
    await client.connect();
  });
  afterAll(() => client?.close());
  return {
    get db() {
      return client.db();
    },
    async of(run) {
      statements = [];
      await run();
      return statements;
    },
  };
}
