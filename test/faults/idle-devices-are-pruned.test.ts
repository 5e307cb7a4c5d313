import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { newDeviceToken } from '../../packages/core/src/ids.ts';
import type { DeviceDocument, TopicDocument } from '../../packages/store/src/documents.ts';
import { runCarillonHere } from '../support/carillon.ts';
import { startProcess } from '../support/child-process.ts';
import { insertDevices } from '../support/faults/device-pool.ts';
import { openServiceSet, type ServiceSet } from '../support/faults/service-set.ts';
import { subscribePool } from '../support/faults/subscribe-pool.ts';
import { readMetric } from '../support/metric-values.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { until } from '../support/until.ts';

const DEVICES = 100_000;
const IDLE = DEVICES / 2;
/** Devices that connect while idle ones are deleted, and those that are connected all the time. */
const COMING = 40;
const CONNECTED = 5;
/** Devices of another app, all idle. */
const OTHERS = 10;
const IMPORTED = 3;
/** Several pages. */
const KILLED_COMMAND_DEVICES = 15_000;
const DAY_MS = 86_400_000;
const LIMIT_MS = 300_000;
const NOWHERE = '/nonexistent';
const REJECTED = 5;

let set: ServiceSet;
let coming: MqttDevice[];
let connected: MqttDevice[];
const devices = () => set.mongo.db.collection<DeviceDocument>('devices');

async function makeIdle(tokens: readonly string[], days = 400): Promise<void> {
  const at = new Date(Date.now() - days * DAY_MS);
  await devices().updateMany({ _id: { $in: [...tokens] } }, { $set: { lastActiveAt: at } });
}

const newTokens = (count: number) => Array.from({ length: count }, newDeviceToken);
const newDevices = (count: number) =>
  Promise.all(Array.from({ length: count }, () => newMqttDevice(set.dev)));
const tokensOf = (some: readonly MqttDevice[]) => some.map(({ token }) => token);

/** Runs a command on the servers of the set. */
const cli = (...args: string[]) =>
  runCarillonHere(NOWHERE, ['--json', ...args], {
    MONGODB_URI: set.dev.mongodb,
    REDIS_URL: set.dev.redis,
  });
const prune = async (app: string, ...options: string[]) => {
  const { code, stdout, stderr } = await cli(
    ...['device', 'prune', '--app', app, '--not-seen-since', '90d', ...options],
  );
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
};

const isThere = { deletedAt: { $exists: false } };
const countThere = (app: string, filter: object = {}) =>
  devices().countDocuments({ app, ...isThere, ...filter });
const isIdle = () => ({ lastActiveAt: { $lt: new Date(Date.now() - 90 * DAY_MS) } });

/** Counts the subscriptions to a topic, and reads its counter. */
async function readTopic(name: string) {
  const { app } = set.dev;
  const range = { _id: { $gt: `${app}:${name}:`, $lt: `${app}:${name};` } } as object;
  const topic = await set.mongo.db
    .collection<TopicDocument>('topics')
    .findOne({ _id: `${app}:${name}` });
  const stored = await set.mongo.db.collection('subscriptions').countDocuments(range);
  return { counter: topic?.n.electron, stored };
}

beforeAll(async () => {
  set = await openServiceSet();
  const { app } = set.dev;
  [coming, connected] = [await newDevices(COMING), await newDevices(CONNECTED)];
  const idle = [
    ...newTokens(IDLE - COMING - CONNECTED),
    ...tokensOf(coming),
    ...tokensOf(connected),
  ];
  const seen = newTokens(DEVICES - IDLE);
  await insertDevices(set, set.mongo, [...idle.slice(0, -COMING - CONNECTED), ...seen]);
  // What records their connect is over before they are connected since long ago.
  await makeIdle(tokensOf(connected), 1);
  await Promise.all(connected.map((device) => device.connect()));
  const anHourAgo = new Date(Date.now() - DAY_MS / 24);
  const recorded = { _id: { $in: tokensOf(connected) }, lastActiveAt: { $gt: anHourAgo } };
  await until(async () => (await devices().countDocuments(recorded)) === CONNECTED);
  await makeIdle(idle);
  const pool = { tokens: [...idle, ...seen], devices: [] };
  await subscribePool({ stack: set, mongo: set.mongo, pool }, 'all');
  await subscribePool({ stack: set, mongo: set.mongo, pool: { ...pool, tokens: idle } }, 'idle');
  const imported = newTokens(IMPORTED).map((token) => ({ token, platform: 'electron' as const }));
  const longAgo = new Date(0);
  await set.store.imports.importDevices(
    app,
    imported.map((one) => ({ ...one, registeredAt: longAgo, lastActiveAt: longAgo })),
  );
}, LIMIT_MS);
afterAll(async () => {
  await Promise.all([...coming, ...connected].map((device) => device.disconnect()));
  await set?.stop();
}, LIMIT_MS);

/** Creates another app of the same account with idle devices that its setting deletes. */
async function createOther(count = OTHERS): Promise<string> {
  const account = (await set.store.apps.find(set.dev.app))?.account ?? '';
  const app = await set.store.apps.create('Other', account);
  const tokens = newTokens(count);
  await insertDevices({ dev: { app } }, set.mongo, tokens);
  await makeIdle(tokens);
  return app;
}

const setPruning = (app: string, days: string) =>
  cli('app', 'set', app, '--prune-after-days', days);

/** Connects one device after the other until all idle ones are deleted. Returns those that were accepted. */
async function comeMeanwhile(isOver: () => Promise<boolean>): Promise<MqttDevice[]> {
  const accepted: MqttDevice[] = [];
  const remaining = [...coming];
  for (let next = remaining.pop(); next !== undefined; next = remaining.pop()) {
    const device = next;
    const outcome = await device.connect().then(
      () => 0,
      ({ code }: { code: number }) => code,
    );
    expect([0, REJECTED]).toContain(outcome);
    if (outcome === 0) accepted.push(device);
    if (await isOver()) break;
    await sleep(100);
  }
  return accepted;
}

test(
  'a dry run counts, and the setting deletes what was idle: over a kill, for all apps by turns, and nothing that connects meanwhile',
  async () => {
    const { app } = set.dev;
    const expected = { deleted: IDLE - CONNECTED, connected: CONNECTED, kept: IMPORTED };
    expect(await prune(app, '--dry-run')).toEqual({ ...expected, dryRun: true });
    expect(await countThere(app, isIdle())).toBe(IDLE + IMPORTED);

    const other = await createOther();
    await set.killAt('scheduler', 'pruned:kill#4', async () => {
      expect((await setPruning(app, '90')).code).toBe(0);
      expect((await setPruning(other, '90')).code).toBe(0);
    });
    expect(await countThere(app, isIdle())).toBeGreaterThan(0);
    const { ops } = set.find('scheduler');
    const readIdle = async () => (await readMetric(ops, 'carillon_idle_devices'))[''] ?? 0;
    await until(async () => (await readIdle()) > 0, { timeoutMs: 60_000, what: 'the metric' });
    const remains = {
      _id: { $nin: tokensOf([...coming, ...connected]) },
      importedAt: { $exists: false },
    };
    const isOver = async () => (await countThere(app, { ...isIdle(), ...remains })) === 0;
    let leftAtOtherEnd = 0;
    const otherEnds = until(async () => (await countThere(other)) === 0, {
      timeoutMs: 60_000,
    }).then(async () => {
      leftAtOtherEnd = await countThere(app, isIdle());
    });
    const accepted = await comeMeanwhile(isOver);
    await otherEnds;
    expect(leftAtOtherEnd).toBeGreaterThan(0);
    await until(isOver, { timeoutMs: 120_000, what: 'the end of the prune' });
    expect(accepted.length).toBeGreaterThan(0);
    const stay = [...accepted, ...connected];
    expect(await countThere(app, { _id: { $in: tokensOf(stay) } })).toBe(stay.length);

    const left = async () => countThere(app, { _id: { $in: tokensOf([...coming, ...connected]) } });
    await until(async () => (await devices().countDocuments({ leaving: true })) === 0, {
      timeoutMs: 60_000,
      what: 'cleared devices',
    });
    const idleLeft = await left();
    expect(await countThere(app)).toBe(DEVICES - IDLE + idleLeft + IMPORTED);
    // Marks of the killed process are recounted half a minute later.
    await until(
      async () => {
        const [all, idle] = [await readTopic('all'), await readTopic('idle')];
        return (
          all.counter === all.stored &&
          all.stored === DEVICES - IDLE + idleLeft &&
          idle.counter === idle.stored &&
          idle.stored === idleLeft
        );
      },
      { timeoutMs: 90_000, what: 'exact counters' },
    );
  },
  LIMIT_MS,
);

test(
  'a command that is killed and repeated deletes the rest, and says so',
  async () => {
    const app = await createOther(KILLED_COMMAND_DEVICES);
    const env = { MONGODB_URI: set.dev.mongodb, REDIS_URL: set.dev.redis };
    const args = ['device', 'prune', '--app', app, '--not-seen-since', '90d', '--yes'];
    const command = startProcess(process.execPath, ['services/cli/src/main.ts', ...args], {
      env: { PATH: process.env.PATH, CARILLON_HOME: NOWHERE, ...env },
    });
    const untilDeleted = async () => (await countThere(app)) < KILLED_COMMAND_DEVICES;
    await until(untilDeleted, { timeoutMs: 60_000, everyMs: 20 });
    command.kill('SIGKILL');
    await command.exited;
    const left = await countThere(app);
    expect(left).toBeGreaterThan(0);
    expect(await prune(app, '--yes')).toMatchObject({ deleted: left, dryRun: false });
    expect(await countThere(app)).toBe(0);
    const facts = { action: 'device.prune', 'facts.app': app };
    expect(await set.mongo.db.collection('audit').countDocuments(facts)).toBe(2);
    expect((await prune(app)).deleted).toBe(0);
  },
  LIMIT_MS,
);

test('a prune needs a time of at least seven days, a yes, and the Redis of presence', async () => {
  const app = await createOther(1);
  const options = (since: string) => ['device', 'prune', '--app', app, '--not-seen-since', since];
  expect(await cli(...options('6d'))).toMatchObject({ code: 1 });
  // There is no terminal to ask on.
  expect(await cli(...options('90d'))).toMatchObject({ code: 2 });
  const env = { MONGODB_URI: set.dev.mongodb, REDIS_URL: 'redis://127.0.0.1:9' };
  const unreachable = await runCarillonHere(NOWHERE, options('90d'), env);
  expect(unreachable.code).toBe(3);
  expect(unreachable.stderr).toContain('The Redis of presence does not respond');
  expect(await countThere(app)).toBe(1);
});
