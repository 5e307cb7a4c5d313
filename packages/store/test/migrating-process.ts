import { MongoClient } from 'mongodb';
import { migrate } from '../src/schema.ts';

// A migration that is to be killed: its first step completes, its second one never ends.
const [uri = '', leaseMs = ''] = process.argv.slice(2);
const client = await new MongoClient(uri).connect();
const steps = [
  { version: 1, description: 'completes' },
  {
    version: 2,
    description: 'writes and never ends',
    run: async () => {
      await client.db().collection<{ _id: string }>('notes').insertOne({ _id: 'half done' });
      process.stdout.write('in the second step\n');
      await new Promise(() => undefined);
    },
  },
];
await migrate(client.db(), { steps, leaseMs: Number(leaseMs) });
