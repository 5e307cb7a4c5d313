import { ratioRow } from '../support/figures.ts';
import { type Herd, startHerd } from '../support/herd.ts';
import { untilWorked } from '../support/progress.ts';
import { pushIdOf, type Scene, type Size } from '../support/scene.ts';
import { until } from '../support/until.ts';
import { startMeter, totalCpu, type Use } from '../support/usage.ts';
import { median, type Row } from '../table.ts';
import { startRawBlast } from './raw-blast.ts';

const DEVICES: Record<Size, number> = { quick: 6_000, usual: 20_000, full: 100_000 };
/** What a process may hold is limited, and so is what one core can write. */
export const GATEWAYS: Record<Size, number> = { quick: 2, usual: 2, full: 6 };
const ROUNDS = 5;
const ANSWERED_MS = 60_000;
const PAYLOAD = { message: 'x'.repeat(286) };
const PAYLOAD_BYTES = JSON.stringify(PAYLOAD).length;

interface Sent {
  seconds: number;
  /** Of the servers. */
  cpu: number;
  /** Of the devices. */
  devicesCpu: number;
}

/** Ours, with each process of the chain. */
interface SentByUs extends Sent {
  uses: Use[];
}

type Rounds = { floor: Sent; ours: SentByUs }[];

/** One push to very many connected devices, against a bare server that writes to as many sockets. */
export async function fanOut(scene: Scene, size: Size): Promise<Row[]> {
  const count = DEVICES[size];
  const tokens = await scene.audience.register(count);
  const floor = await startRawBlast(GATEWAYS[size]);
  const herd = startHerd(tokens.map(scene.audience.identify), GATEWAYS[size]);
  try {
    await herd.connect(floor.ports);
    await herd.connect([Number(new URL(scene.stack.dev.mqtt).port)]);
    await scene.untilIdle();
    const body = JSON.stringify({ to: tokens, data: PAYLOAD });
    const request = scene.request('POST', '/push', body);
    const rounds: Rounds = [];
    for (let n = 0; n <= ROUNDS; n += 1) {
      rounds.push({
        floor: await withDevices(herd, () => floor.send(PAYLOAD_BYTES)),
        ours: await withDevices(herd, () => sendToAll(scene, request)),
      });
    }
    return rowsOf(rounds.slice(1), count);
  } finally {
    await Promise.all([herd.stop(), floor.stop()]);
  }
}

/** From the POST until the outcome of every recipient is kept. */
async function sendToAll(scene: Scene, request: Buffer): Promise<Omit<SentByUs, 'devicesCpu'>> {
  const meter = startMeter(scene.stack);
  const startedAt = performance.now();
  const push = pushIdOf(await scene.call(request));
  await untilWorked(scene.mongo, push, 10);
  // Whoever answered too late for its batch is owed the push in the inbox until its receipt is kept.
  const isAnswered = async () => (await scene.mongo.collection('inbox').findOne({ push })) === null;
  await until('every device to have answered', isAnswered, { timeoutMs: ANSWERED_MS });
  const seconds = (performance.now() - startedAt) / 1_000;
  const uses = meter.read().filter(isOfTheChain);
  await scene.untilIdle();
  return { seconds, cpu: totalCpu(uses), uses };
}

function isOfTheChain({ process }: Use): boolean {
  return !/^(sandbox|npm-start|supervisor)/.test(process);
}

async function withDevices<T>(
  herd: Herd,
  send: () => Promise<T>,
): Promise<T & Pick<Sent, 'devicesCpu'>> {
  const before = await herd.report();
  const sent = await send();
  const after = await herd.report();
  return { ...sent, devicesCpu: after.cpu - before.cpu };
}

function rowsOf(rounds: Rounds, count: number): Row[] {
  const pick = (name: keyof Sent, factor: number) =>
    rounds.map(({ floor, ours }) => ({ floor: floor[name] * factor, ours: ours[name] * factor }));
  const to = `to ${count.toLocaleString('en')} connected`;
  const ratio = 'ours/floor';
  const time = { unit: 's', goal: { atMost: 2.2 }, ratio } as const;
  const cpu = { unit: 'µs', goal: { atMost: 2.5 }, ratio } as const;
  const perDevice = 1e6 / count;
  return [
    ratioRow(`fan-out: ${to}, POST to the last kept receipt`, pick('seconds', 1), time),
    ratioRow(`fan-out-cpu: ${to}, the whole chain a device`, pick('cpu', perDevice), cpu),
    ...(rounds[0]?.ours.uses ?? []).map(({ process }, at) => ({
      what: `fan-out: CPU of ${process}, a device`,
      value: median(rounds.map(({ ours }) => (ours.uses[at]?.cpuSeconds ?? 0) * perDevice)),
      unit: 'µs',
    })),
    {
      what: 'fan-out: CPU of the devices, a device',
      value: median(rounds.map(({ ours }) => ours.devicesCpu * perDevice)),
      unit: 'µs',
    },
  ];
}
