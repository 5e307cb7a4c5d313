// Makes the MongoDB of docker-compose.yml a replica set of one member, waits until it accepts writes, and then runs the
// command line with its own arguments: `node with-replica-set.mjs migrate`. A server that MONGODB_URI does not call
// `mongodb` is somebody else's, and is left as it is. Repeating it changes nothing.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';

/** As long as the manifests have `migrate` wait for MongoDB; its first start includes the fetching of its image. */
const DEADLINE_MS = 600_000;
const INTERVAL_MS = 500;
const MEMBER = 'mongodb:27017';
const NOT_YET_INITIALIZED = 94;

// The driver is a dependency of the store.
const { MongoClient } = createRequire(
  new URL('../../packages/store/package.json', import.meta.url),
)('mongodb');

async function ensureReplicaSet() {
  const client = new MongoClient(`mongodb://${MEMBER}/?directConnection=true`, {
    serverSelectionTimeoutMS: 5_000,
    appName: 'carillon-init',
  });
  try {
    const admin = client.db('admin');
    await admin.command({ replSetGetStatus: 1 }).catch(async (error) => {
      if (error.code !== NOT_YET_INITIALIZED) throw error;
      const config = { _id: 'carillon', members: [{ _id: 0, host: MEMBER }] };
      await admin.command({ replSetInitiate: config });
    });
    return (await admin.command({ hello: 1 })).isWritablePrimary;
  } finally {
    await client.close();
  }
}

const uri = readFileSync(process.env.MONGODB_URI_FILE, 'utf8').trim();
if (new RegExp(`^mongodb://${MEMBER}/`).test(uri)) {
  const deadline = performance.now() + DEADLINE_MS;
  for (;;) {
    let fault = 'it is not yet the primary';
    try {
      if (await ensureReplicaSet()) break;
    } catch (error) {
      fault = error.message;
    }
    if (performance.now() > deadline) {
      process.stderr.write(`MongoDB did not become a replica set: ${fault}\n`);
      process.exit(1);
    }
    await sleep(INTERVAL_MS);
  }
  process.stdout.write('MongoDB is a replica set of one member.\n');
}

// Imported late: it runs at once, and reads its arguments from the process.
await import('../../services/cli/src/main.ts');
