import { readFileSync, statSync } from 'node:fs';
import { MongoClient } from 'mongodb';
import { migrate } from '../../packages/store/src/schema.ts';
import type { StackFixture } from '../support/fixture.ts';
import { pidOf, readPeakMb, resetPeak } from '../support/resource-usage.ts';
import { readDev } from '../support/stack.ts';
import { until } from '../support/until.ts';
import type { Row } from '../table.ts';
import { type CommandEnd, type Interruption, runCommand } from './command.ts';
import { countDifferences, readDeviceEntries, readExportedTokens, readTokens } from './devices.ts';

/** Highest resident set of a process. */
const MAX_MB = 150;
/** Database of the second installation, on the same server. */
const EMPTY_INSTALLATION = 'export_bench';

/** Exports to a file, with a kill -9 of the command and one of the API process, and compares the file. */
export async function exportWithKills(
  { stack, mongo }: StackFixture,
  name: string,
  { file, bytes }: { file: string; bytes: number },
): Promise<Row[]> {
  const { app } = stack.dev;
  const hasWritten = (share: number) => () => readSize(`${file}.partial`) > share * bytes;
  const run = (interruption?: Interruption) =>
    runCommand(
      ['export', 'devices', '--output', file],
      { CARILLON_HOME: stack.home },
      interruption,
    );
  const killed = pidOf(stack, 'api');
  resetPeak(killed);
  let killedMb = 0;
  const first = await run({ when: hasWritten(1 / 4), act: kill });
  const second = await run({
    when: hasWritten(1 / 2),
    act() {
      killedMb = readPeakMb(killed);
      kill(killed);
    },
  });
  requireKilled(first);
  requireSuccess(second);
  const restarted = await findRestarted(stack.home, killed);
  const differences = await countDifferences(readTokens(mongo, app), readExportedTokens(file));
  return [
    memoryRow(
      `${name}, killed and continued: highest memory of the api`,
      Math.max(killedMb, readPeakMb(restarted)),
    ),
    memoryRow(`${name}: highest memory of carillon export`, Math.max(first.peakMb, second.peakMb)),
    exactRow(`${name}, killed and continued: rows missing or twice`, differences),
  ];
}

/** Imports the file into an empty installation, with a kill -9 of the command, and compares all documents. */
export async function importWithKill(
  { stack, mongo }: StackFixture,
  name: string,
  file: string,
): Promise<Row[]> {
  const { app, mongodb } = stack.dev;
  const uri = new URL(mongodb);
  uri.pathname = `/${EMPTY_INSTALLATION}`;
  const client = await new MongoClient(uri.href).connect();
  try {
    const target = client.db();
    await migrate(target);
    const tenant = await mongo.collection<{ _id: string }>('apps').findOne({ _id: app });
    if (tenant === null) throw new Error(`no app ${app}`);
    await target.collection<{ _id: string }>('apps').insertOne(tenant);
    const run = (interruption?: Interruption) =>
      runCommand(
        ['import', file, '--app', app, '--source', 'carillon'],
        { CARILLON_HOME: stack.home, MONGODB_URI: uri.href },
        interruption,
      );
    const size = readSize(file);
    const first = await run({ when: () => readImported(file) > size / 2, act: kill });
    requireKilled(first);
    const devices = target.collection('devices');
    const imported = await devices.estimatedDocumentCount();
    const startedAt = performance.now();
    const second = await run();
    const seconds = (performance.now() - startedAt) / 1_000;
    requireSuccess(second);
    const differences = await countDifferences(
      readDeviceEntries(mongo, app),
      readDeviceEntries(target, app),
    );
    return [
      {
        what: `${name}: their import, the part after the kill`,
        value: ((await devices.estimatedDocumentCount()) - imported) / seconds,
        unit: 'devices/s',
      },
      memoryRow(
        `${name}: highest memory of carillon import`,
        Math.max(first.peakMb, second.peakMb),
      ),
      exactRow(`${name}, imported with a kill: devices that differ`, differences),
    ];
  } finally {
    await client.close();
  }
}

function kill(pid: number): void {
  process.kill(pid, 'SIGKILL');
}

function requireKilled({ code }: CommandEnd): void {
  if (code === 0) throw new Error('the command ended before it was killed');
}

function requireSuccess({ code, stderr }: CommandEnd): void {
  if (code !== 0) throw new Error(`the command ended with ${code}: ${stderr}`);
}

/** Waits until the supervisor has replaced an API process. Returns the new one. */
async function findRestarted(home: string, killed: number): Promise<number> {
  const findApi = () => readDev(home)?.processes.find(({ service }) => service === 'api')?.pid;
  await until('the API to be back', () => ![killed, undefined].includes(findApi()));
  return findApi() ?? killed;
}

/** Returns 0 when the file is absent. */
function readSize(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** Returns the bytes of the file that are imported, from the command's own record. */
function readImported(file: string): number {
  const path = `${file}.import.json`;
  if (readSize(path) === 0) return 0;
  return (JSON.parse(readFileSync(path, 'utf8')) as { position: { end: number } }).position.end;
}

/** Creates the row of the highest resident set of a process. */
export function memoryRow(what: string, value: number): Row {
  return { what, value, unit: 'MB', goal: { atMost: MAX_MB } };
}

function exactRow(what: string, value: number): Row {
  return { what, value, goal: { atMost: 0 } };
}
