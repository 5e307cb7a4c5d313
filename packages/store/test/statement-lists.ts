import type { Db, Document } from 'mongodb';
import { openStore, type TestStore } from '../../../test/support/open-store.ts';
import { createReports } from '../../reports/src/reports.ts';
import { createWebhookStore } from '../../webhooks/src/webhook-store.ts';
import { ALL_WRITES, listCases } from './all-cases.ts';
import type { Case } from './document-fixtures.ts';
import { READ_CASES } from './read-cases.ts';

/** The packages that send statements to MongoDB. */
export const ROOMS = ['store', 'reports', 'webhooks'] as const;
export type Room = (typeof ROOMS)[number];

/** Tells the store's statements from those that prepare a case. */
const APP_NAME = 'listed';
/** Bytes of the list of statements that the server keeps: those of all cases. */
const PROFILE_BYTES = 64 * 1024 * 1024;
/** What a function of the schema sends depends on the state of all collections: the page of the schema is its code. */
const WITHOUT_LIST = ['migrate', 'schema.clear'];

/** Runs of functions that begin at random, so many that each beginning is among them. */
const RUNS: Readonly<Record<string, number>> = { 'outbox.claim': 40 };

const CASES = { ...READ_CASES, ...ALL_WRITES };

/**
 * Runs the cases of all functions that reach MongoDB, and lists the statements that the server got.
 *
 * @param direct a database with the schema, over a connection of its own
 * @returns a text for each room: each function, and indented its statements
 */
export async function readStatementLists(direct: Db, uri: string): Promise<Record<Room, string>> {
  const store = await openStore({ uri, appName: APP_NAME });
  const [ofReports, ofWebhooks] = [createReports(store), createWebhookStore(store)];
  const roomOf = (part: string): Room => {
    if (part in ofReports) return 'reports';
    return part in ofWebhooks ? 'webhooks' : 'store';
  };
  try {
    await direct.command({ profile: 0 });
    await direct.createCollection('system.profile', { capped: true, size: PROFILE_BYTES });
    await direct.command({ profile: 2 });
    const lists = new Map(ROOMS.map((room) => [room, [] as string[]]));
    for (const name of Object.keys(CASES).sort()) {
      if (WITHOUT_LIST.includes(name)) continue;
      const cases = listCases(CASES[name] ?? {}).map(([, one]) => one);
      const runs = Array.from({ length: RUNS[name] ?? 1 }, () => cases);
      const statements = await listStatements(direct, store, runs.flat());
      const [part = name] = name.split('.');
      if (statements.length > 0)
        lists.get(roomOf(part))?.push([name, ...statements.map((one) => `  ${one}`)].join('\n'));
    }
    const texts = [...lists].map(([room, list]) => [room, `${list.join('\n\n')}\n`]);
    return Object.fromEntries(texts) as Record<Room, string>;
  } finally {
    await store.close();
  }
}

/** Runs the cases of one function; lists each different statement once, in alphabetical order. */
async function listStatements(direct: Db, store: TestStore, cases: Case[]): Promise<string[]> {
  const statements = new Set<string>();
  for (const { given, call } of cases) {
    await given(direct);
    const before = await countStatements(direct);
    await call(store);
    // Their timers would send statements beside other cases.
    store.knownWebhooks.stop();
    store.suspensions.stop();
    for (const entry of await readProfile(direct, before)) statements.add(describe(entry));
    await empty(direct);
  }
  return [...statements].sort();
}

const OWN = { appName: APP_NAME, op: { $ne: 'getmore' } };

function countStatements(direct: Db): Promise<number> {
  return direct.collection('system.profile').countDocuments(OWN);
}

function readProfile(direct: Db, before: number): Promise<Document[]> {
  return direct.collection('system.profile').find(OWN).sort({ $natural: 1 }).skip(before).toArray();
}

async function empty(direct: Db): Promise<void> {
  const names = await direct.listCollections({}, { nameOnly: true }).toArray();
  const own = names.filter(({ name }) => !name.startsWith('system.') && name !== 'schema');
  await Promise.all(own.map(({ name }) => direct.collection(name).deleteMany()));
}

/** Describes an entry of the server's profile: command, collection, fields of the filter, what is written or computed. */
function describe({ op, ns, command }: Document): string {
  const collection = String(ns).slice(String(ns).indexOf('.') + 1);
  if (op === 'insert') return `insert ${collection}`;
  if (op === 'update') return `update ${collection} ${fields(command.q)} ${changes(command.u)}`;
  if (op === 'remove') return `delete ${collection} ${fields(command.q)}`;
  if (command.findAndModify !== undefined)
    return `findAndModify ${collection} ${fields(command.query)} ${changes(command.update)}`;
  if (command.find !== undefined) {
    const sort = command.sort === undefined ? '' : ` sort ${fields(command.sort)}`;
    return `find ${collection} ${fields(command.filter)}${sort}`;
  }
  if (command.aggregate !== undefined) {
    const stages = (command.pipeline as Document[]).map((stage) =>
      '$match' in stage ? `$match ${fields(stage.$match)}` : Object.keys(stage)[0],
    );
    return `aggregate ${collection} ${stages.join(' ')}`;
  }
  if (command.distinct !== undefined)
    return `distinct ${collection} ${command.key} ${fields(command.query)}`;
  return Object.keys(command)[0] ?? op;
}

function fields(filter: Document = {}): string {
  return `{${Object.keys(filter).join(', ')}}`;
}

/** Lists what an update of operators, of a pipeline, or of a whole document changes. */
function changes(update: Document | Document[] | undefined): string {
  if (update === undefined) return 'delete';
  const stages = Array.isArray(update) ? update : [update];
  return stages
    .flatMap((stage) => Object.entries(stage))
    .map(([operator, value]) =>
      operator.startsWith('$') ? `${operator} ${names(value)}` : operator,
    )
    .join(' ');
}

/** Lists the fields that an operator changes; the server's profile has arrays as objects. */
function names(value: unknown): string {
  const entries = Object.entries(value ?? {});
  return entries.map(([key, name]) => (/^\d+$/.test(key) ? name : key)).join(', ');
}
