// Makes the MongoDB of docker-compose.yml a replica set of the members that MONGODB_URI names, waits until it accepts
// writes, and then runs the command line with its own arguments: `node with-replica-set.mjs migrate`. The members are
// among those that MONGODB_MEMBERS lists; any other server belongs to another installation, and is not changed. A member that
// the set does not have yet is added to it; none is ever removed. A set with other SETTINGS gets them. Repeating it changes
// nothing.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';

/** As long as the manifests have `migrate` wait for MongoDB; its first start includes the fetching of its image. */
const DEADLINE_MS = 600_000;
const INTERVAL_MS = 500;
const NAME = 'carillon';
/** A lost primary is replaced when the others have missed it for this time. MongoDB's default, 10 s, stops pushes for longer. */
const SETTINGS = { electionTimeoutMillis: 4_000 };
const NOT_YET_INITIALIZED = 94;
/** Host names of the servers that this may make a replica set of. */
const OWN_SERVERS = (process.env.MONGODB_MEMBERS ?? 'mongodb mongodb-2 mongodb-3').split(' ');

// The driver is a dependency of the store.
const { MongoClient } = createRequire(
  new URL('../../packages/store/package.json', import.meta.url),
)('mongodb');

/** Lists the members that an address names, as host:port; undefined if one of them is somebody else's. */
function listMembers(uri) {
  const [, list = ''] = /^mongodb:\/\/([^/?]+)/.exec(uri) ?? [];
  const hosts = list.split(',').map((host) => host.replace(/:27017$/, ''));
  if (!hosts.every((host) => OWN_SERVERS.includes(host))) return undefined;
  return hosts.map((host) => `${host}:27017`);
}

/** Runs a task with the admin database of one server, whatever its state, or of the set's primary. */
async function withAdmin(address, task) {
  const client = new MongoClient(address, {
    serverSelectionTimeoutMS: 5_000,
    appName: 'carillon-init',
  });
  try {
    return await task(client.db('admin'));
  } finally {
    await client.close();
  }
}

const ask = (member, command) =>
  withAdmin(`mongodb://${member}/?directConnection=true`, (admin) => admin.command(command));

/** Makes the set, if no member is in one. A set whose majority is missing would accept no write, so all must respond. */
async function initiate(members) {
  const states = await Promise.allSettled(members.map((one) => ask(one, { replSetGetStatus: 1 })));
  if (states.some(({ status }) => status === 'fulfilled')) return;
  const other = states.find(({ reason }) => reason.code !== NOT_YET_INITIALIZED);
  if (other !== undefined) throw other.reason;
  const hosts = members.map((host, _id) => ({ _id, host }));
  await ask(members[0], { replSetInitiate: { _id: NAME, members: hosts, settings: SETTINGS } });
}

/** Changes the settings that differ, and adds the members that are missing, one at a time, as MongoDB asks for. */
async function update(members) {
  await withAdmin(`mongodb://${members.join()}/?replicaSet=${NAME}`, async (admin) => {
    for (;;) {
      const { config } = await admin.command({ replSetGetConfig: 1 });
      const changed = await findChange(config, members);
      if (changed === undefined) return;
      const version = config.version + 1;
      await admin.command({ replSetReconfig: { ...config, ...changed, version } });
    }
  });
}

/** Returns the part of a set's configuration that has to change next; undefined if none does. */
async function findChange(config, members) {
  const settings = { ...config.settings, ...SETTINGS };
  if (!isDeepStrictEqual(settings, config.settings)) return { settings };
  const host = members.find((member) => !config.members.some((one) => one.host === member));
  if (host === undefined) return undefined;
  await ask(host, { ping: 1 });
  const _id = Math.max(...config.members.map((member) => member._id)) + 1;
  return { members: [...config.members, { _id, host }] };
}

const members = listMembers(readFileSync(process.env.MONGODB_URI_FILE, 'utf8').trim());
if (members !== undefined) {
  const deadline = performance.now() + DEADLINE_MS;
  // Each error is written once. None has a secret: the addresses have no user and no password.
  const written = new Set();
  for (;;) {
    try {
      await initiate(members);
      await update(members);
      break;
    } catch (error) {
      if (performance.now() > deadline) {
        process.stderr.write(`MongoDB did not become a replica set: ${error.message}\n`);
        process.exit(1);
      }
      if (!written.has(error.message))
        process.stderr.write(`MongoDB is not yet a replica set: ${error.message}\n`);
      written.add(error.message);
    }
    await sleep(INTERVAL_MS);
  }
  const count = members.length === 1 ? 'one member' : `${members.length} members`;
  process.stdout.write(`MongoDB is a replica set of ${count}.\n`);
}

// Imported late: it runs at once, and reads its arguments from the process.
await import('../../services/cli/src/main.ts');
