import { setTimeout as sleep } from 'node:timers/promises';
import { decodePresence } from '../../../packages/presence/src/keys.ts';
import { type DeviceFleet, startDeviceFleet } from '../../support/device-fleet.ts';
import { openStackFixture, type StackFixture } from '../../support/fixture.ts';
import { untilSettled } from '../../support/progress.ts';
import { until } from '../../support/until.ts';
import { median } from '../../table.ts';
import type { LoadPoint, MeasuredDeliveries, Resources } from '../measured.ts';
import { countProcesses, measureSecond } from './idle.ts';
import {
  burst,
  CONNECTED_WITH_ROW,
  CONNECTED_WITHOUT_ROW,
  GATEWAYS,
  group,
  LOADS,
  type Load,
  PAYLOAD,
  ROUNDS,
  type Run,
  sendLoad,
  single,
} from './loads.ts';
import { startPresenceServer } from './presence-server.ts';
import { countConnections, type PresenceServer, startMeter } from './resources.ts';

const SETTLE_MS = 10_000;

/**
 * Measures the cost of connects, connections, pushes and recipients for all services and servers of a stack with 8 gateways.
 * Every load is sent in three rounds, which alternate; a value is their median.
 */
export async function measureDeliveries(): Promise<MeasuredDeliveries> {
  const presence = await startPresenceServer();
  const fixture = await openStackFixture(GATEWAYS, { PRESENCE_REDIS_URL: presence.url });
  const fleets: DeviceFleet[] = [];
  try {
    await sleep(SETTLE_MS);
    const idle = await measureSecond(fixture, presence);
    print('idle');
    const connected = await connectAll({ fixture, presence, idle, fleets });
    const held = await measureSecond(fixture, presence);
    print('connections');
    const byGateway = await readByGateway(presence, connected.tokens);
    const offlineTokens = await fixture.audience.register(1_000);
    const run: Run = { fixture, presence, byGateway, offlineTokens };
    await warmUp(run);
    const points = { ...connected.points, ...(await measureLoads(run, held)) };
    const ports = {
      redis: portOf(fixture.stack.dev.redis),
      presence: portOf(presence.url),
      mongodb: portOf(fixture.stack.dev.mongodb),
    };
    const connections = countConnections(fixture, ports);
    const processes = countProcesses(fixture);
    const link = divide(subtract(held, idle, 1), CONNECTED_WITHOUT_ROW + CONNECTED_WITH_ROW);
    return { processes, idle, link, points, connections };
  } finally {
    await Promise.all(fleets.map((fleet) => fleet.stop()));
    await fixture.close();
    await presence.stop();
  }
}

/** Connects devices without and with an inbox row, and measures their connects and the rows. */
async function connectAll({
  fixture,
  presence,
  idle,
  fleets,
}: Pick<Run, 'fixture' | 'presence'> & { idle: Resources; fleets: DeviceFleet[] }): Promise<{
  tokens: string[];
  points: Record<string, LoadPoint>;
}> {
  const present = await fixture.audience.register(CONNECTED_WITHOUT_ROW);
  const away = await fixture.audience.register(CONNECTED_WITH_ROW);
  const { push, ...offline } = await measureOffline(fixture, presence, away, idle);
  const connect = (tokens: readonly string[], rowsOf?: string) => {
    const network = fleets.length + 1;
    const fleet = startDeviceFleet(tokens.map(fixture.audience.credentialsOf), 1, network);
    fleets.push(fleet);
    return measureConnect(fixture, presence, { fleet, push: rowsOf, count: tokens.length }, idle);
  };
  const points = {
    'offline recipient': offline,
    connect: await connect(present),
    'connect with a row': await connect(away, push),
  };
  await fixture.untilIdle();
  await sleep(SETTLE_MS);
  return { tokens: [...present, ...away], points };
}

/** Measures one push to a topic of devices that are offline: a row in each inbox. */
async function measureOffline(
  fixture: StackFixture,
  presence: PresenceServer,
  tokens: readonly string[],
  idle: Resources,
): Promise<LoadPoint & { push: string }> {
  const warm = await fixture.audience.subscribe('warm', await fixture.audience.register(5_000));
  await untilSettled(fixture.mongo, await fixture.push(warm), 20);
  const topic = await fixture.audience.subscribe('away', tokens);
  let push = '';
  const used = await measureUse(fixture, presence, idle, async () => {
    push = await fixture.push(topic, { data: PAYLOAD });
    await untilSettled(fixture.mongo, push, 50);
  });
  print('offline');
  const units = tokens.length;
  return { push, units, recipients: units, used: divide(used, units) };
}

/** Measures connects, until all are recorded, and those of devices with an inbox row also until it is empty. */
async function measureConnect(
  fixture: StackFixture,
  presence: PresenceServer,
  { fleet, push, count }: { fleet: DeviceFleet; push: string | undefined; count: number },
  idle: Resources,
): Promise<LoadPoint> {
  const inbox = fixture.mongo.collection('inbox');
  const used = await measureUse(fixture, presence, idle, async () => {
    await fleet.connect([portOf(fixture.stack.dev.mqtt)]);
    const areRead = async () => push === undefined || (await inbox.findOne({ push })) === null;
    await until('the inboxes to be read', areRead, { timeoutMs: 60_000 });
    // Connects are recorded in MongoDB once a second.
    await sleep(3_000);
  });
  print(`${count} connects`);
  return { units: count, used: divide(used, count) };
}

/** Reads which tokens are connected to each gateway. */
async function readByGateway({ redis }: PresenceServer, tokens: string[]): Promise<string[][]> {
  const byGateway = new Map<string, string[]>();
  for (let from = 0; from < tokens.length; from += 1_000) {
    const some = tokens.slice(from, from + 1_000);
    const entries = await redis.mget(...some.map((token) => `p:${token}`));
    for (const [index, token] of some.entries()) {
      const gateway = decodePresence(entries[index])?.gateway;
      if (gateway === undefined) throw new Error(`${token} is not connected`);
      const held = byGateway.get(gateway) ?? [];
      held.push(token);
      byGateway.set(gateway, held);
    }
  }
  if (byGateway.size !== GATEWAYS) throw new Error(`${byGateway.size} gateways have devices`);
  return [...byGateway.values()];
}

async function warmUp(run: Run): Promise<void> {
  for (const load of [single(300), group(100, 20), burst(5_000)])
    await sendLoad(run, { ...load, ...(load.seconds && { seconds: 4 }) });
  print('warm');
}

async function measureLoads(run: Run, idle: Resources): Promise<Record<string, LoadPoint>> {
  const rounds = new Map<Load, LoadPoint[]>(LOADS.map((load) => [load, []]));
  for (let n = 0; n < ROUNDS; n += 1) {
    for (const load of LOADS) {
      if (n >= (load.rounds ?? ROUNDS)) continue;
      let pushes = 0;
      const used = await measureUse(run.fixture, run.presence, idle, async () => {
        pushes = await sendLoad(run, load);
      });
      rounds.get(load)?.push(toPoint(run, load, pushes, used));
      print(load.name);
    }
  }
  return Object.fromEntries([...rounds].map(([load, points]) => [load.name, medianOf(points)]));
}

function toPoint(run: Run, load: Load, pushes: number, used: Resources): LoadPoint {
  const to = load.recipients(run, 0);
  return {
    units: pushes,
    ...(load.perSecond !== undefined && { perSecond: load.perSecond }),
    recipients: typeof to === 'string' ? 1 : to.length,
    gateways: load.gateways ?? 0,
    used: divide(used, pushes),
  };
}

async function measureUse(
  fixture: StackFixture,
  presence: PresenceServer,
  idle: Resources,
  work: () => Promise<void>,
): Promise<Resources> {
  const read = await startMeter(fixture, presence);
  const startedAt = performance.now();
  await work();
  return subtract(await read(), idle, (performance.now() - startedAt) / 1_000);
}

function medianOf(points: readonly LoadPoint[]): LoadPoint {
  const [first] = points;
  if (first === undefined) throw new Error('a load was not sent');
  const names = Object.keys(first.used);
  const used = names.map((name) => [name, median(points.map((point) => point.used[name] ?? 0))]);
  return { ...first, used: Object.fromEntries(used) };
}

function subtract(total: Resources, idlePerSecond: Resources, seconds: number): Resources {
  return Object.fromEntries(
    Object.entries(total).map(([name, n]) => [name, n - (idlePerSecond[name] ?? 0) * seconds]),
  );
}

function divide(total: Resources, units: number): Resources {
  return Object.fromEntries(Object.entries(total).map(([name, n]) => [name, n / units]));
}

function portOf(url: string): number {
  return Number(new URL(url).port);
}

function print(what: string): void {
  process.stdout.write(`  ${what}\n`);
}
