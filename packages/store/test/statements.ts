import { type Db, MongoClient } from 'mongodb';

/** A connection of its own whose statements are listed. */
export interface ListedStatements {
  db: Db;
  /** Runs calls and returns their statements in order, each as `command collection`. */
  of(run: () => Promise<unknown>): Promise<string[]>;
  close(): Promise<void>;
}

/** Connects to a database and lists the statements that are sent to it. */
export async function listStatements(uri: string): Promise<ListedStatements> {
  const client = new MongoClient(uri, { monitorCommands: true });
  let statements: string[] = [];
  client.on('commandStarted', ({ commandName, command }) =>
    statements.push(`${commandName} ${command[commandName]}`),
  );
  await client.connect();
  return {
    db: client.db(),
    async of(run) {
      statements = [];
      await run();
      return statements;
    },
    close: () => client.close(),
  };
}
