import { type DeviceFleet, startDeviceFleet } from '../support/device-fleet.ts';
import { pushIdOf, type Size, type StackFixture } from '../support/fixture.ts';
import { warmUp } from '../support/load-patterns.ts';
import { untilSettled } from '../support/progress.ts';
import {
  isDeliveryProcess,
  type ResourceUsage,
  startUsageMeter,
  sumCpuSeconds,
} from '../support/resource-usage.ts';
import { type StackCosts, startCostMeter } from '../support/stack-costs.ts';
import { ratioRow, valueRow } from '../support/statistics.ts';
import { until } from '../support/until.ts';
import type { Row } from '../table.ts';
import { startFanOutFloor } from './fan-out-floor.ts';

const DEVICES: Record<Size, number> = { quick: 6_000, usual: 20_000, full: 100_000 };
/** Limited by the open files of a process and the write rate of one core. */
export const GATEWAYS: Record<Size, number> = { quick: 2, usual: 2, full: 6 };
const ROUNDS = 5;
const TIMEOUT_MS = 60_000;
const PAYLOAD = { message: 'x'.repeat(286) };
const PAYLOAD_BYTES = JSON.stringify(PAYLOAD).length;

interface Sent {
  seconds: number;
  /** Of the servers. */
  cpu: number;
  /** Of the devices. */
  devicesCpu: number;
}

/** Carillon's result, with the CPU time of each process. */
interface SentByUs extends Sent {
  uses: ResourceUsage[];
  /** With those of the measurement, which waits for the end of the push. */
  commands: Pick<StackCosts, 'redisCommands' | 'mongoCommands'>;
  /** Devices that had not acknowledged in time. */
  rows: number;
}

type Rounds = { floor: Sent; ours: SentByUs }[];

/** Measures one push to many connected devices, compared with a bare server that writes to as many sockets. */
export async function fanOut(fixture: StackFixture, size: Size): Promise<Row[]> {
  const count = DEVICES[size];
  const tokens = await fixture.audience.register(count);
  const floor = await startFanOutFloor(GATEWAYS[size]);
  const fleet = startDeviceFleet(tokens.map(fixture.audience.credentialsOf), GATEWAYS[size]);
  try {
    await fleet.connect(floor.ports);
    await fleet.connect([Number(new URL(fixture.stack.dev.mqtt).port)]);
    await fixture.untilIdle();
    const body = JSON.stringify({ to: tokens, data: PAYLOAD });
    const request = fixture.request('POST', '/push', body);
    const measureRound = async () => ({
      floor: await measureWithDevices(fleet, () => floor.send(PAYLOAD_BYTES)),
      ours: await measureWithDevices(fleet, () => sendToAll(fixture, request)),
    });
    await warmUp(measureRound);
    const rounds: Rounds = [];
    for (let n = 0; n < ROUNDS; n += 1) rounds.push(await measureRound());
    return toRows(rounds, count);
  } finally {
    await Promise.all([fleet.stop(), floor.stop()]);
  }
}

/** Measures from the POST until the outcome of every recipient is stored. */
async function sendToAll(
  fixture: StackFixture,
  request: Buffer,
): Promise<Omit<SentByUs, 'devicesCpu'>> {
  const readCosts = await startCostMeter(fixture);
  const meter = startUsageMeter(fixture.stack);
  const startedAt = performance.now();
  const push = pushIdOf(await fixture.call(request));
  await untilSettled(fixture.mongo, push, 10);
  // A device that acknowledged too late for its batch has the push in its inbox until the receipt is stored.
  const isInboxEmpty = async () =>
    (await fixture.mongo.collection('inbox').findOne({ push })) === null;
  await until('every receipt to be stored', isInboxEmpty, { timeoutMs: TIMEOUT_MS });
  const seconds = (performance.now() - startedAt) / 1_000;
  const uses = meter.read().filter(isDeliveryProcess);
  const commands = await readCosts();
  await fixture.untilIdle();
  const rows = await countRows(fixture, push);
  return { seconds, cpu: sumCpuSeconds(uses), uses, commands, rows };
}

/** Counts the inbox rows that the batches of a push had when they were settled. */
async function countRows({ mongo }: StackFixture, push: string): Promise<number> {
  const [total] = await mongo
    .collection('batches')
    .aggregate<{ rows: number }>([
      { $match: { push } },
      { $group: { _id: null, rows: { $sum: '$work.counts.inbox' } } },
    ])
    .toArray();
  return total?.rows ?? 0;
}

async function measureWithDevices<T>(
  fleet: DeviceFleet,
  send: () => Promise<T>,
): Promise<T & Pick<Sent, 'devicesCpu'>> {
  const before = await fleet.report();
  const sent = await send();
  const after = await fleet.report();
  return { ...sent, devicesCpu: after.cpu - before.cpu };
}

function toRows(rounds: Rounds, count: number): Row[] {
  const spreadOf = (name: keyof Sent, factor: number) =>
    rounds.map(({ floor, ours }) => ({ floor: floor[name] * factor, ours: ours[name] * factor }));
  const to = `to ${count.toLocaleString('en')} connected`;
  const ratio = 'ours/floor';
  const time = { unit: 's', ratio } as const;
  const cpu = { unit: 'µs', ratio } as const;
  const perDevice = 1e6 / count;
  const floors = rounds.map(({ floor }) => floor.cpu * perDevice);
  const cpuOf = (name: string, pick: (ours: SentByUs) => number) =>
    valueRow(
      `fan-out: CPU of ${name}, a device`,
      rounds.map(({ ours }) => pick(ours) * perDevice),
      { unit: 'µs', floors },
    );
  return [
    ratioRow(`fan-out: ${to}, POST to the last kept receipt`, spreadOf('seconds', 1), time),
    ratioRow(`fan-out-cpu: ${to}, the whole chain a device`, spreadOf('cpu', perDevice), cpu),
    valueRow(
      `fan-out: ${to}, devices that got an inbox row`,
      rounds.map(({ ours }) => ours.rows),
      { unit: 'rows' },
    ),
    ...(rounds[0]?.ours.uses ?? []).map(({ process }, at) =>
      cpuOf(process, ({ uses }) => uses[at]?.cpuSeconds ?? 0),
    ),
    cpuOf('the devices', ({ devicesCpu }) => devicesCpu),
    ...(['redis', 'mongo'] as const).map((server) =>
      valueRow(
        `fan-out: commands of ${server === 'redis' ? 'Redis' : 'MongoDB'}, a thousand devices`,
        rounds.map(({ ours }) => (ours.commands[`${server}Commands`] * 1_000) / count),
        { unit: 'commands' },
      ),
    ),
  ];
}
