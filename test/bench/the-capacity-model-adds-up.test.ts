import { describe, expect, test } from '@jest/globals';
import { type Capacity, computeCapacity, gatewayMb } from '../../bench/model/capacity.ts';
import { checkModel } from '../../bench/model/check.ts';
import { countGateways, fitCosts, groupPush, singleAt } from '../../bench/model/costs.ts';
import { readInputs } from '../../bench/model/inputs.ts';
import { findLimits } from '../../bench/model/limits.ts';
import type { LoadPoint, Measured } from '../../bench/model/measured.ts';

const SERVICES = ['api', 'delivery-worker', 'device-gateway', 'scheduler'];
const SERVERS = ['redis', 'presence', 'mongodb'];

/** CPU in µs of each unit, the same for every service and server. */
const US = { group: 900, entry: 20, recipient: 10, batch: 100, row: 30, connect: 200, replay: 50 };

function used(us: number) {
  const cpu = [...SERVICES, ...SERVERS].map((name) => [`${name} cpu`, us] as const);
  return { ...Object.fromEntries(cpu), 'mongodb journal': us, 'device-gateway out': us };
}

/** A push to several whose own cost is that at 100 a second, or that at 50. */
function groupPoint(recipients: number, gateways: number, perSecond?: number): LoadPoint {
  const batches = Math.ceil(recipients / 1_000);
  const { group, entry, recipient, batch } = US;
  const slower = perSecond === 100 ? 1 : Math.sqrt(1_000 / 700);
  const us =
    group * slower + batches * gateways * entry + recipients * recipient + (batches - 1) * batch;
  const rate = perSecond === undefined ? {} : { perSecond };
  return { units: 1, ...rate, recipients, gateways, used: used(us) };
}

const singlePoint = (perSecond: number, us: number): LoadPoint => ({
  units: 1,
  perSecond,
  recipients: 1,
  gateways: 1,
  used: used(us),
});

const MEASURED: Measured = {
  deliveries: {
    processes: { api: 1, 'delivery-worker': 1, 'device-gateway': 8, scheduler: 1 },
    idle: { ...used(1_100), 'device-gateway out': 800, 'api out': 200 },
    link: used(0.1),
    connections: Object.fromEntries(SERVICES.map((name) => [name, { redis: 10, presence: 4 }])),
    points: {
      'single at 50/s': singlePoint(50, 1_000),
      'single at 200/s': singlePoint(200, 700),
      'single at 300/s': singlePoint(300, 620),
      'single at 600/s': singlePoint(600, 500),
      'single, offline': singlePoint(200, 800),
      'group of 8 on one gateway': groupPoint(8, 1, 100),
      'group of 8': groupPoint(8, 8, 100),
      'group of 100': groupPoint(100, 8, 20),
      'group of 1000': groupPoint(1_000, 8, 3),
      'push to 5000': groupPoint(5_000, 8),
      'push to 10000': groupPoint(10_000, 8),
      'push to 20000': groupPoint(20_000, 8),
      'push to 50000': groupPoint(50_000, 8),
      'offline recipient': { units: 1, used: used(US.row) },
      connect: { units: 1, used: used(US.connect) },
      'connect with a row': { units: 1, used: used(US.connect + US.replay) },
    },
  },
  links: {
    gatewayMb: [0, 5_000, 10_000, 17_500].map((links) => ({ links, mb: 100 + links / 500 })),
    redisBytesPerLink: 200,
    plainBytes: 2_000,
    tlsBytes: 50_000,
  },
  storage: {
    device: 100,
    subscription: 100,
    push: 200,
    batchRecipient: 25,
    inboxRow: 160,
    restMb: Object.fromEntries(SERVICES.map((name) => [name, 130])),
  },
  providers: { apns: 80, fcm: 120, 'web-push': 700 },
};
const COSTS = fitCosts(MEASURED);

const capacityOf = (...args: string[]): Capacity =>
  computeCapacity(readInputs(args), COSTS, MEASURED);
const load = (connected: number, pushes: number, fanOut: number, ...more: string[]) =>
  capacityOf(
    ...['--connected', `${connected}`, '--pushes', `${pushes}`, '--fan-out', `${fanOut}`, ...more],
  );

describe('the fit', () => {
  test('finds the cost of each unit again', () => {
    const { group, entry, recipient, batch, row, connect, replay } = US;
    const found = [COSTS.group, COSTS.entry, COSTS.recipient, COSTS.batch];
    found.push(COSTS.offlineRecipient, COSTS.connect, COSTS.replayedRow);
    const expected = [group, entry, recipient, batch, row, connect, replay];
    for (const [n, us] of expected.entries()) expect(found[n]?.['mongodb cpu']).toBeCloseTo(us, 6);
  });

  test('predicts points that follow from the same costs, and leaves an error where they do not', () => {
    const errors = checkModel(MEASURED, COSTS).map(({ what, error }) => [what, Math.abs(error)]);
    expect(errors.slice(1)).toEqual([
      ['CPU of a push to 100 devices on eight gateways', expect.closeTo(0, 6)],
      ['CPU of a push to 10,000 devices on eight gateways', expect.closeTo(0, 6)],
      ['memory of a gateway with 17,500 connections', expect.closeTo(0, 6)],
    ]);
    expect(errors[0]).toEqual([expect.stringContaining('300 a second'), expect.closeTo(0.0028, 4)]);
  });

  test('a cost below the noise is 0', () => {
    const points = { ...MEASURED.deliveries.points, 'connect with a row': singlePoint(1, 1) };
    const fitted = fitCosts({ deliveries: { ...MEASURED.deliveries, points } });
    expect(fitted.replayedRow['api cpu']).toBe(0);
  });

  test('between two rates the cost lies between theirs; outside it is that of the nearest rate', () => {
    const us = (rate: number) => singleAt(COSTS, rate)['api cpu'];
    expect([us(0), us(50), us(100), us(200), us(600), us(5_000)]).toEqual([
      1_000,
      1_000,
      expect.closeTo(Math.sqrt(1_000 * 700), 6),
      700,
      500,
      500,
    ]);
  });
});

test('devices on many gateways are on nearly as many, on one on one', () => {
  expect(countGateways(100, 1)).toBe(1);
  expect(countGateways(0, 1)).toBe(0);
  expect(countGateways(1, 800)).toBeCloseTo(1, 6);
  expect(countGateways(100, 800)).toBeCloseTo(94.1, 1);
  expect(countGateways(1_000, 8)).toBeCloseTo(8, 6);
});

test('a push to several has a batch for each thousand recipients', () => {
  const us = (connected: number, offline: number, perSecond = 100) =>
    groupPush(COSTS, { connected, offline, gateways: 1, perSecond })['api cpu'];
  expect(us(1_000, 0)).toBeCloseTo(900 + 20 + 10_000, 6);
  expect(us(1_001, 0)).toBeCloseTo(900 + 100 + 40 + 10_010, 6);
  expect(us(0, 1_000)).toBeCloseTo(900 + 30_000, 6);
  expect(us(1, 0, 5_000)).toBeCloseTo(us(1, 0) ?? 0, 6);
  // At a low rate the push itself costs more, by as much as one to a single device.
  expect(us(1, 0, 50)).toBeCloseTo(900 * Math.sqrt(1_000 / 700) + 30, 6);
});

test('more of anything never needs less', () => {
  const base = load(100_000, 100, 50, '--registered', '9000000');
  const more = [
    load(1_000_000, 100, 50, '--registered', '9000000'),
    load(100_000, 1_000, 50, '--registered', '9000000'),
    load(100_000, 100, 500, '--registered', '9000000'),
  ];
  const amounts = ({ services, mongodb, redis, network }: Capacity) => [
    ...Object.values(services).map(({ processes }) => processes),
    ...Object.values(services).map(({ cores }) => cores),
    ...[mongodb.cores, mongodb.diskGb, mongodb.journalMb, mongodb.shards],
    ...[redis.queueCores, redis.presenceCores, redis.servers, redis.memoryGb],
    ...Object.values(network).map(({ out }) => out),
  ];
  for (const larger of more)
    for (const [n, amount] of amounts(larger).entries())
      expect(amount).toBeGreaterThanOrEqual(amounts(base)[n] ?? Number.NaN);
});

test('without devices and pushes two processes of each service remain, with what they use at rest', () => {
  const { services, mongodb, redis, deliveriesPerSecond } = load(0, 0, 1);
  expect(Object.values(services).map(({ processes }) => processes)).toEqual([2, 2, 2, 2]);
  expect(services.api.cores).toBeCloseTo((2 * 1_100) / 1e6, 9);
  // Of what the servers use at rest, eight gateways cause four fifths and one api a fifth, as they send as many bytes.
  expect(mongodb.cores).toBeCloseTo((2 * (880 / 8) + 2 * 220) / 1e6, 9);
  expect([mongodb.diskGb, mongodb.shards, deliveriesPerSecond]).toEqual([0, 1, 0]);
  expect([redis.servers, redis.memoryGb]).toEqual([1, 0]);
});

test('units: cores, MB, GB', () => {
  const { services, mongodb, redis } = load(24_000, 100, 1_000, '--registered', '1000000');
  expect(services['device-gateway']).toMatchObject({ processes: 2 });
  // 100 MB, 2 KB for each of 12,000 connections, 48 KB more with TLS, and 64 MB that wait for devices.
  expect(services['device-gateway'].mbEach).toBeCloseTo(100 + 24 + 576 + 64 * 1.048576, 6);
  expect(redis.memoryGb).toBeCloseTo(0.0048, 9);
  const disk = 1e6 * 300 + 100 * 0.4 * 2 * 86_400 * (200 + 200 + 25_000);
  expect(mongodb.diskGb).toBeCloseTo(disk / 1e9, 6);
  expect(gatewayMb(MEASURED, 20_000)).toBeCloseTo(140, 6);
});

test('shares: rows for offline recipients, the messages of a provider, no gateway for either', () => {
  const [connected, away, apns, fcm] = [
    load(10_000, 100, 100),
    load(10_000, 100, 100, '--away', '1'),
    load(10_000, 100, 100, '--provider', '1'),
    load(10_000, 100, 100, '--provider', '1', '--channel', 'fcm'),
  ].map(({ services, mongodb, redis }) => ({ services, mongodb, redis }));
  expect(away?.mongodb.diskGb).toBeGreaterThan(connected?.mongodb.diskGb ?? 0);
  expect(apns?.redis.presenceCores).toBeLessThan(connected?.redis.presenceCores ?? 0);
  const coresOf = (one: typeof apns) => one?.services['delivery-worker'].cores ?? 0;
  expect(coresOf(fcm) - coresOf(apns)).toBeCloseTo((10_000 * 40) / 1e6, 2);
});

describe('limits', () => {
  const limitsOf = (...args: string[]) => {
    const inputs = readInputs(args);
    return findLimits(inputs, computeCapacity(inputs, COSTS, MEASURED), MEASURED);
  };
  const args = ['--connected', '1000000', '--pushes', '1000', '--fan-out', '100'];

  test('the limit with the least room is first', () => {
    const limits = limitsOf(...args);
    const rooms = limits.map(({ headroom }) => headroom);
    expect(rooms).toEqual([...rooms].sort((a, b) => a - b));
    expect(limits[0]).toMatchObject({ name: "one core of the queues' Redis" });
    expect(limits[0]?.headroom).toBeLessThan(1);
  });

  test('twice the cores of MongoDB are twice the room', () => {
    const room = (cores: string) =>
      limitsOf(...args, '--mongodb-cores', cores).find(({ name }) => name.startsWith('CPU'))
        ?.headroom ?? 0;
    expect(room('32') / room('16')).toBeCloseTo(2, 6);
  });
});

describe('inputs are refused with all their faults', () => {
  const needed = ['--connected', '100', '--pushes', '1'];
  test.each([
    [['--connected', '5'], ['--pushes is missing']],
    [['--connected', 'many', '--pushes', '1'], ['--connected is no number: many']],
    [
      ['--connected', '-1', '--pushes', ' '],
      ['--connected is -1, less than 0', '--pushes is no number:  '],
    ],
    [[...needed, '--devices', '5'], ['there is no input --devices']],
    [[...needed, 'more'], ['no input: more']],
    [[...needed, '--away', '1.5'], ['--away is 1.5, more than 1']],
    [
      [...needed, '--away', '0.6', '--provider', '0.6'],
      ['--away and --provider are more than all'],
    ],
    [[...needed, '--registered', '10'], ['--registered is less than --connected']],
    [[...needed, '--fan-out', '2.5'], ['--fan-out is no whole number']],
    [[...needed, '--fan-out', '500'], ['--fan-out is more than --registered']],
    [[...needed, '--channel', 'sms'], ['--channel is none of apns, fcm, web-push']],
    [['--connected', '0', '--pushes', '1', '--registered', '5'], ['no device is connected']],
  ])('%j', (given, messages) => {
    for (const message of messages) expect(() => readInputs(given)).toThrow(message);
  });

  test('and valid inputs get the defaults', () => {
    expect(readInputs([...needed, '--no-tls'])).toMatchObject({
      registered: 200,
      fanOut: 1,
      tls: false,
      channel: 'apns',
    });
  });
});
