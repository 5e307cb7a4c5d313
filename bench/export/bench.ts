import { mkdtemp, rm } from 'node:fs/promises';
import { get, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openStackFixture, type StackFixture } from '../support/fixture.ts';
import {
  pidOf,
  readPeakMb,
  readPssMb,
  readResidentMb,
  resetPeak,
} from '../support/resource-usage.ts';
import type { Dev } from '../support/stack.ts';
import { measureAlternately, ratioRow } from '../support/statistics.ts';
import type { Row } from '../table.ts';
import { readDevices, storeDevices } from './devices.ts';
import { exportWithKills, importWithKill, memoryRow } from './interrupted.ts';

const DEVICES = { quick: 50_000, usual: 1_000_000 };
const ROUNDS = 3;
const SPEED = { unit: 'devices/s', ratio: 'ours/floor', goal: { atLeast: 0.3 } } as const;
const LINE_FEED = 0x0a;
const SAMPLE_INTERVAL_MS = 250;

/**
 * Measures exports and an import of an app's devices: the speed against a bare cursor, the memory of the processes, and
 * that kills lose no device and repeat none.
 */
export async function benchExport(quick: boolean): Promise<Row[]> {
  const count = quick ? DEVICES.quick : DEVICES.usual;
  const fixture = await openStackFixture(1);
  const folder = await mkdtemp(join(tmpdir(), 'carillon-export-'));
  try {
    await storeDevices(fixture.mongo, fixture.stack.dev.app, count);
    const name = `export of ${count.toLocaleString('en')} devices`;
    const file = join(folder, 'devices.ndjson');
    const { rows, bytes } = await measureStreaming(fixture, name, count);
    return [
      ...rows,
      ...(await exportWithKills(fixture, name, { file, bytes })),
      ...(await importWithKill(fixture, name, file)),
    ];
  } finally {
    await fixture.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Measures exports over HTTP, and the memory of the API process meanwhile. */
async function measureStreaming(
  { stack, mongo }: StackFixture,
  name: string,
  count: number,
): Promise<{ rows: Row[]; bytes: number }> {
  const api = pidOf(stack, 'api');
  const before = readResidentMb(api);
  let bytes = 0;
  let pss = 0;
  const sampling = setInterval(() => {
    pss = Math.max(pss, readPssMb(api));
  }, SAMPLE_INTERVAL_MS);
  resetPeak(api);
  const rounds = await measureAlternately(
    ROUNDS,
    () => measureRate(count, () => countAll(readDevices(mongo, stack.dev.app))),
    () =>
      measureRate(count, async () => {
        const exported = await countExported(stack.dev);
        bytes = exported.bytes;
        return exported.rows;
      }),
  ).finally(() => clearInterval(sampling));
  const highest = memoryRow(
    `${name}: highest memory of the api, ${ROUNDS} in a row`,
    readPeakMb(api),
  );
  return {
    rows: [
      ratioRow(`${name}, against a cursor over them`, rounds, SPEED),
      { what: `${name}: memory of the api before`, value: before, unit: 'MB' },
      highest,
      { what: `${name}: of it, shared pages counted in parts`, value: pss, unit: 'MB' },
    ],
    bytes,
  };
}

/** @throws when the number of devices is not the expected one */
async function measureRate(count: number, run: () => Promise<number>): Promise<number> {
  const startedAt = performance.now();
  const found = await run();
  if (found !== count) throw new Error(`${found} of ${count} devices`);
  return (count * 1_000) / (performance.now() - startedAt);
}

async function countAll(documents: AsyncIterable<unknown>): Promise<number> {
  let count = 0;
  for await (const _ of documents) count += 1;
  return count;
}

/** Counts the rows of an export without parsing them. @throws when it is not complete */
async function countExported({ api, apiKey }: Dev): Promise<{ rows: number; bytes: number }> {
  const headers = { authorization: `Bearer ${apiKey}` };
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get(new URL('/export/devices', api), { headers }, resolve).on('error', reject);
  });
  let lines = 0;
  let bytes = 0;
  let end = '';
  for await (const chunk of response as AsyncIterable<Buffer>) {
    for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, at + 1))
      lines += 1;
    bytes += chunk.length;
    end = (end + chunk.subarray(-32).toString('latin1')).slice(-32);
  }
  if (!end.endsWith('{"complete":true}\n')) throw new Error('the export is not complete');
  return { rows: lines - 1, bytes };
}
