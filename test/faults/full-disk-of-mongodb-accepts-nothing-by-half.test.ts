import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { listUnreadyDuring } from '../support/faults/list-unready.ts';
import { createMongodProcess, type MongodProcess } from '../support/faults/mongod-process.ts';
import { mountSmallDisk, type SmallDisk } from '../support/faults/small-disk.ts';
import { expectWholeOrAbsent, sendDuring } from '../support/faults/steady-pushes.ts';

const DISK = '640m';
const LOAD = { perSecond: 10, perPush: 3 };
const DEVICES = 12;
const PUSHES = 30;
const DOCUMENT_BYTES = 1_048_576;
/** Guarantee G15, with some time for a machine that is busy. */
const RESPONSE_WITHIN_MS = 3_500;

let disk: SmallDisk;
let mongod: MongodProcess;
let fixture: Fixture;
beforeAll(async () => {
  disk = mountSmallDisk(DISK);
  const dbPath = join(disk.path, 'db');
  await mkdir(dbPath);
  mongod = await createMongodProcess(dbPath);
  await mongod.start();
  const env = { MONGODB_URI: `mongodb://127.0.0.1:${mongod.port}/carillon` };
  fixture = await openFixture({ registered: DEVICES, real: DEVICES }, { env });
}, 120_000);
afterAll(async () => {
  await fixture?.close();
  await mongod?.kill();
  disk?.unmount();
});

/** Writes until MongoDB has no room for more: it has reserved some for its journal. */
async function fillUp(): Promise<void> {
  const collection = fixture.mongo.db.collection('filler');
  for (let isFull = false; !isFull; ) {
    disk.fill();
    const document = { bytes: new Binary(randomBytes(DOCUMENT_BYTES)) };
    isFull = await collection.insertOne(document, { writeConcern: { w: 1, journal: true } }).then(
      () => false,
      () => true,
    );
  }
}

test('while the disk is full pushes get 5xx in time; once there is space all accepted ones arrive', async () => {
  const { stack, pool } = fixture;
  const unready = await listUnreadyDuring(stack.dev.processes, async () => {
    const sent = await sendDuring(stack, pool.devices, LOAD, async (load) => {
      await load.untilAccepted(PUSHES);
      await fillUp();
      await load.untilFailed(PUSHES);
      disk.free();
      // MongoDB ends when it can't write its journal; its supervisor starts it again.
      if (!mongod.isRunning()) await mongod.start();
      await load.untilAccepted(PUSHES);
    });
    const failed = sent.flatMap((one) => (one.isAccepted ? [] : [one]));
    // Each has a status only if its body was JSON.
    expect(failed.filter(({ status }) => status === undefined)).toEqual([]);
    expect(failed.filter(({ tookMs }) => tookMs > RESPONSE_WITHIN_MS)).toEqual([]);
    await expectWholeOrAbsent('full disk of MongoDB', fixture, sent);
  });
  expect(unready).toEqual([]);
  expect(stack.output()).not.toMatch(/ ended \(/);
}, 240_000);
