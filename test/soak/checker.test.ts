import { expect, test } from '@jest/globals';
import { check, INVARIANT_NAMES, type InvariantName } from './checker.ts';
import type {
  Arrival,
  DeviceEnd,
  History,
  ProcessEnd,
  PushEnd,
  PushSample,
  Reports,
  SentPush,
  Try,
} from './history.ts';
import { buildPlan, LONG_TTL_SECONDS, objectOf } from './plan.ts';

const START = 1_000_000;
const ID = '0'.repeat(24);
const NEWER_ID = '1'.repeat(24);

const ok = (id: string, devices: number): Try => ({
  ...{ end: 'ok', startedAtMs: START, endedAtMs: START + 10, status: 200, id, devices },
});

const sent = (mark: string, audience: string[], fields: Partial<SentPush> = {}): SentPush => ({
  ...{
    tenant: 'a',
    mark,
    audience,
    ttlSeconds: LONG_TTL_SECONDS,
    tries: [ok(ID, audience.length)],
  },
  ...fields,
});

const arrival = (mark: string, token: string, atMs = START + 20): Arrival => ({
  ...{ mark, token, atMs, channel: 'mqtt', connection: 1 },
});

const overFcm = (mark: string, token: string, atMs = START + 20): Arrival => ({
  ...{ mark, token, atMs, channel: 'fcm', connection: 0 },
});

const countOf = (recipients: Record<string, string>): Record<string, number> =>
  Object.fromEntries(
    [...Map.groupBy(Object.values(recipients), (name) => name)].map(([name, all]) => [
      name,
      all.length,
    ]),
  );

const endOf = (recipients: Record<string, string>): PushEnd => {
  const outcomes = { counts: countOf(recipients), recipients };
  return { ...outcomes, stored: outcomes, sample: { ...outcomes, pendingDevices: [] } };
};

/** The end of a push that was delivered to a and sent to b, with another answer in the sample. */
const sampledAs = (sample: Partial<PushSample>): PushEnd => {
  const end = endOf({ a: 'delivered', b: 'sent' });
  return { ...end, sample: { ...end.stored, ...sample } };
};

const device = (token: string, fields: Partial<DeviceEnd>): DeviceEnd => ({
  ...{ token, isConnected: true, isOnline: true, pendingNotifications: 0 },
  ...fields,
});

const NOTHING_LEFT = { openBatches: 0, inboxRows: 0, waitingPushes: 0, endings: 0, jobs: 0 };

const killed = (process: string): ProcessEnd => ({ process, reason: 'SIGKILL' });

/** A run of one push to two devices that kept every guarantee. */
function goodRun(): History {
  return {
    seed: 1,
    pushes: [sent('one', ['a', 'b'])],
    // The device a got it over FCM as well.
    arrivals: [arrival('one', 'a'), overFcm('one', 'a'), overFcm('one', 'b')],
    ends: { [ID]: endOf({ a: 'delivered', b: 'sent' }) },
    removed: [],
    settledAtMs: START + 60_000,
    observerLags: { [START / 1_000]: 100 },
    left: NOTHING_LEFT,
    devices: [device('a', {}), device('b', { isConnected: false, isOnline: false })],
    shown: { a: [ID], b: [] },
    reports: { tenant: 'b', sinceMs: START, outcomes: {}, wrongRequests: 0 },
    faults: [{ fault: 'kill api', index: 1, atMs: START + 30_000, healedAtMs: START + 30_000 }],
    ...{ failedFaults: [], refusedConnects: [] },
    deaths: [killed('api 1')],
    kills: ['api 1'],
    memory: [{ service: 'api', before: 100, after: 119 }],
  };
}

function change(push: Partial<SentPush>): Partial<History> {
  return { pushes: [sent('one', ['a', 'b'], push)] };
}

/** A run of an older and a newer push of one collapse key, in the order of these arrivals. */
function collapsed(...marks: string[]): Partial<History> {
  const newer = { collapse: 'key', tries: [ok(NEWER_ID, 1)] };
  return {
    pushes: [sent('old', ['a'], { collapse: 'key' }), sent('new', ['a'], newer)],
    arrivals: marks.map((mark, index) => arrival(mark, 'a', START + 1_000 * index)),
    ends: { [ID]: endOf({ a: 'superseded' }), [NEWER_ID]: endOf({ a: 'delivered' }) },
    shown: { a: [ID, NEWER_ID], b: [] },
  };
}

const unknown = (endedAtMs: number): Try => ({ end: 'unknown', startedAtMs: START, endedAtMs });

/** A good run in which the first request failed so long after the start, and was repeated. */
const failed = (afterMs: number): Partial<History> => {
  const startedAtMs = START + afterMs;
  return change({
    tries: [{ end: 'unknown', startedAtMs, endedAtMs: startedAtMs + 10, status: 503 }, ok(ID, 2)],
  });
};

/** A good run in which a repeated request was refused so long after the start. */
const refusedAfter = (endedAtMs: number, push: Partial<SentPush> = {}): Partial<History> =>
  change({
    ...push,
    tries: [ok(ID, 2), { end: 'fail', startedAtMs: START, endedAtMs, status: 400 }],
  });

/** A run of a push that was superseded by one of which only a failed request is known. */
function supersededByUnknown(newer: Try, ...marks: string[]): Partial<History> {
  const { pushes = [], ...run } = collapsed('new');
  return {
    ...{
      ...run,
      pushes: [...pushes.slice(0, 1), sent('new', ['a'], { collapse: 'key', tries: [newer] })],
    },
    ...{ arrivals: marks.map((mark) => arrival(mark, 'a')), shown: { a: [ID], b: [] } },
    faults: [{ fault: 'stop api', atMs: START, healedAtMs: START + 5_000 }],
  };
}

const reported = (outcomes: Reports['outcomes']): Reports => ({
  ...{ tenant: 'b', sinceMs: START, outcomes, wrongRequests: 0 },
});

/** A good run with a push of the second tenant to its device. */
function twoTenants(): History {
  const { pushes, arrivals, ends, ...run } = goodRun();
  return {
    ...run,
    pushes: [...pushes, sent('of b', ['c'], { tenant: 'b', tries: [ok(NEWER_ID, 1)] })],
    arrivals: [...arrivals, arrival('of b', 'c')],
    ends: { ...ends, [NEWER_ID]: endOf({ c: 'delivered' }) },
    shown: { a: [ID], b: [NEWER_ID] },
    reports: reported({ [NEWER_ID]: { c: ['sent', 'delivered'] } }),
  };
}

const refused = change({
  tries: [{ end: 'fail', startedAtMs: START, endedAtMs: START, status: 400 }],
});

/** A run of so many recipients that twenty duplicates are below the share that is allowed. */
const toMany = (): Partial<History> => ({
  pushes: [
    sent(
      'one',
      Array.from({ length: 20_000 }, (_, n) => `d${n}`),
    ),
  ],
});

/** A push that came to a device over FCM, and so often again at this time. */
const againOverFcm = (count: number, atMs: number): Arrival[] => [
  overFcm('one', 'd0'),
  ...Array.from({ length: count }, () => overFcm('one', 'd0', atMs)),
];

/** For each invariant, runs with one fault in them. */
const BAD_RUNS: Record<InvariantName, Partial<History>[]> = {
  'one id for each key': [change({ tries: [ok(ID, 2), ok(NEWER_ID, 2)] })],
  'each accepted recipient has one end': [
    { ends: {} },
    { ends: { [ID]: { ...endOf({ a: 'delivered', b: 'sent' }), counts: { delivered: 1 } } } },
    { ends: { [ID]: endOf({ a: 'delivered', b: 'pending' }) } },
  ],
  'nothing is lost': [
    { arrivals: [arrival('one', 'a')], ends: { [ID]: endOf({ a: 'delivered', b: 'expired' }) } },
    // A run of an hour is over, and the time to live is not.
    {
      arrivals: [arrival('one', 'a')],
      ends: { [ID]: endOf({ a: 'delivered', b: 'expired' }) },
      settledAtMs: START + 4_000_000,
    },
    { arrivals: [arrival('one', 'a')], ends: { [ID]: endOf({ a: 'delivered', b: 'superseded' }) } },
    { arrivals: [arrival('one', 'a')], ends: { [ID]: endOf({ a: 'delivered', b: 'gone' }) } },
    { arrivals: [arrival('one', 'a')], ends: { [ID]: endOf({ a: 'delivered', b: 'deleted' }) } },
    { arrivals: [arrival('one', 'a')], ends: { [ID]: endOf({ a: 'delivered', b: 'failed' }) } },
    // A newer push that nobody got, and an older one.
    supersededByUnknown(unknown(START + 10)),
    supersededByUnknown(unknown(START - 1), 'new'),
  ],
  'few duplicates': [
    { arrivals: [...goodRun().arrivals, arrival('one', 'a'), arrival('one', 'a')] },
    { arrivals: [...goodRun().arrivals, overFcm('one', 'a'), overFcm('one', 'a')] },
    { ...toMany(), arrivals: Array.from({ length: 18 }, () => arrival('one', 'd0')) },
    // In the window of the one fault, and before it.
    { ...toMany(), arrivals: againOverFcm(17, START + 30_000) },
    { ...toMany(), arrivals: againOverFcm(17, START + 29_000) },
  ],
  'nothing is early': [
    change({ dueAtMs: START + 30 }),
    {
      ...change({ dueAtMs: START + 30 }),
      arrivals: [arrival('one', 'a', START + 40), overFcm('one', 'a', START + 29)],
    },
  ],
  'nothing is sent after its expiry': [
    { ...change({ ttlSeconds: 4 }), arrivals: [arrival('one', 'a', START + 5_200)] },
    { ...change({ ttlSeconds: 4 }), arrivals: [overFcm('one', 'a', START + 5_200)] },
    { ...change({ ttlSeconds: 0 }), arrivals: [arrival('one', 'a', START + 6_200)] },
  ],
  'nothing is sent after its deletion': [
    {
      ...change({ deletion: { startedAtMs: START, deletedAtMs: START } }),
      arrivals: [arrival('one', 'a', START + 1_200)],
    },
    {
      ...change({ deletion: { startedAtMs: START, deletedAtMs: START } }),
      arrivals: [overFcm('one', 'a', START + 1_200)],
    },
  ],
  'nothing is sent that was refused': [
    refused,
    { ...refused, arrivals: [overFcm('one', 'a')] },
    { ...change({ isInvalid: true }), arrivals: [] },
    { ...change({ isInvalid: true, tries: [unknown(START)] }), arrivals: [overFcm('one', 'a')] },
  ],
  'an unknown push is there whole or not at all': [
    {
      ...change({ tries: [unknown(START)] }),
      arrivals: [arrival('one', 'a')],
    },
  ],
  'the newest push of a collapse key is the last': [
    collapsed('new', 'old'),
    // The older one comes as a fallback when the device has the newer one.
    {
      ...collapsed('new', 'old'),
      arrivals: [arrival('new', 'a', START), overFcm('old', 'a', START + 1_000)],
    },
  ],
  'nothing is left at rest': [
    ...Object.keys(NOTHING_LEFT).map((what) => ({ left: { ...NOTHING_LEFT, [what]: 1 } })),
  ],
  'the status agrees with the devices': [
    { ends: { [ID]: { ...endOf({ a: 'delivered', b: 'sent' }), counts: { delivered: 2 } } } },
    // Routes of the API say different things.
    ...[
      { pendingDevices: ['a'] },
      { counts: { delivered: 2 } },
      { counts: {} },
      { recipients: {} },
      { recipients: { a: 'sent', b: 'delivered' } },
      { recipients: { a: 'delivered', b: 'sent', c: 'sent' } },
    ].map((sample) => ({ ends: { [ID]: sampledAs(sample) } })),
    // The API and the database say different things.
    {
      ends: {
        [ID]: {
          ...endOf({ a: 'delivered', b: 'sent' }),
          stored: { counts: { delivered: 1, sent: 1 }, recipients: { a: 'sent', b: 'delivered' } },
        },
      },
    },
    {
      ends: {
        [ID]: {
          ...endOf({ a: 'delivered', b: 'sent' }),
          stored: { counts: { delivered: 2 }, recipients: { a: 'delivered', b: 'sent' } },
        },
      },
    },
    { ends: { [ID]: endOf({ a: 'delivered', b: 'sent', c: 'sent' }) } },
    { ends: { [ID]: endOf({ a: 'expired', b: 'sent' }) } },
    { arrivals: [arrival('one', 'a')] },
    { arrivals: [overFcm('one', 'a'), overFcm('one', 'b')] },
    { arrivals: [arrival('one', 'a'), arrival('one', 'b')] },
  ],
  'no valid request is refused': [
    refused,
    refusedAfter(START + 5_000),
    refusedAfter(START + 5_000, { dueAtMs: START + 5_001 }),
    { refusedConnects: [{ token: 'a', atMs: START, code: 5 }] },
  ],
  'requests fail only because of faults': [
    failed(29_989),
    failed(42_001),
    // No fault was there.
    { ...failed(30_000), faults: [] },
  ],
  'no device gets the push of another': [
    { arrivals: [...goodRun().arrivals, arrival('one', 'c')] },
    { arrivals: [...goodRun().arrivals, arrival('another', 'a')] },
    { arrivals: [...goodRun().arrivals, overFcm('one', 'c')] },
    // The device c is the other tenant's.
    { ...twoTenants(), arrivals: [...twoTenants().arrivals, arrival('one', 'c')] },
  ],
  'presence agrees with the devices': [
    { devices: [device('a', { isOnline: false })] },
    { devices: [device('a', { isConnected: false })] },
    { devices: [device('a', { pendingNotifications: 1 })] },
  ],
  'a tenant is shown its own pushes alone': [
    { ...twoTenants(), shown: { a: [ID, NEWER_ID], b: [NEWER_ID] } },
    { ...twoTenants(), shown: { a: [ID], b: [] } },
  ],
  'each end of a recipient is reported': [
    { ...twoTenants(), reports: reported({}) },
    { ...twoTenants(), reports: reported({ [NEWER_ID]: { c: ['expired'] } }) },
    {
      ...twoTenants(),
      reports: { ...reported({ [NEWER_ID]: { c: ['delivered'] } }), wrongRequests: 1 },
    },
  ],
  'each fault is applied': [{ failedFaults: [{ fault: 'kill api', error: 'no process' }] }],
  'no process ends by itself': [
    { deaths: [killed('api 1'), { process: 'scheduler', reason: 'exit code 1' }] },
    // The kernel's OOM killer uses the signal of the run.
    { deaths: [killed('api 1'), killed('api 1')] },
    { deaths: [killed('api 1'), killed('api')] },
    { deaths: [killed('api 1'), killed('mongodb')] },
    { deaths: [killed('api 1'), { process: 'redis', reason: 'not killed here' }] },
  ],
  'memory comes back': [{ memory: [{ service: 'api', before: 100, after: 121 }] }],
};

test('a run that kept every guarantee has no violation', () => {
  expect(check(goodRun())).toEqual([]);
  expect(check({ ...goodRun(), ...collapsed('old', 'new') })).toEqual([]);
  expect(check({ ...goodRun(), ...supersededByUnknown(unknown(START + 10), 'new') })).toEqual([]);
  expect(check(twoTenants())).toEqual([]);
  const expired = change({ ttlSeconds: 5 });
  const forNow = change({ ttlSeconds: 0 });
  const ends = { [ID]: endOf({ a: 'delivered', b: 'expired' }) };
  expect(check({ ...goodRun(), ...expired, ends, arrivals: [arrival('one', 'a')] })).toEqual([]);
  const lastMoment = [arrival('one', 'a', START + 6_000)];
  expect(check({ ...goodRun(), ...forNow, ends, arrivals: lastMoment })).toEqual([]);
});

test('requests may fail during a fault and shortly after it, and a schedule may be over', () => {
  for (const afterMs of [29_990, 30_000, 42_000])
    expect(check({ ...goodRun(), ...failed(afterMs) })).toEqual([]);
  const scheduled = refusedAfter(START + 15, { dueAtMs: START + 15 });
  expect(check({ ...goodRun(), ...scheduled })).toEqual([]);
});

test('an invalid request is refused, and not known while the API fails', () => {
  const { pushes: refusals = [] } = refused;
  const invalid = refusals.map((push) => ({ ...push, mark: 'invalid', isInvalid: true }));
  const failing = invalid.map((push) => ({ ...push, mark: 'failing', tries: [unknown(START)] }));
  const faults = [{ fault: 'kill mongodb', atMs: START, healedAtMs: START + 1_000 }];
  const pushes = [...goodRun().pushes, ...invalid, ...failing];
  expect(check({ ...goodRun(), pushes, faults })).toEqual([]);
});

test.each(
  INVARIANT_NAMES.flatMap((name) => BAD_RUNS[name].map((fault, n) => ({ name, n, fault }))),
)('$name: fault $n is found', ({ name, fault }) => {
  const found = check({ ...goodRun(), ...fault }).map(({ invariant }) => invariant);
  expect(found).toContain(name);
});

test('a seed decides the whole plan', () => {
  const settings = { minutes: 2, pushesPerSecond: 5, devices: { a: 100, b: 10 }, topics: 2 };
  expect(buildPlan({ seed: 7, ...settings })).toEqual(buildPlan({ seed: 7, ...settings }));
  expect(buildPlan({ seed: 7, ...settings })).not.toEqual(buildPlan({ seed: 8, ...settings }));
  const { faults, pushes } = buildPlan({ seed: 7, ...settings });
  // One every 20 s, and others of other objects that begin while these last.
  expect(faults.filter(({ atMs }) => atMs % 20_000 === 10_000).length).toBeGreaterThanOrEqual(6);
  expect(pushes.length).toBeGreaterThan(400);
  expect(pushes.filter(({ isInvalid }) => isInvalid).length).toBeGreaterThan(3);
});

test('a delay of the observer excuses only what it noticed at that time', () => {
  const late = { ...change({ ttlSeconds: 4 }), arrivals: [arrival('one', 'a', START + 5_200)] };
  const find = (observerLags: History['observerLags']) =>
    check({ ...goodRun(), ...late, observerLags }).filter(({ invariant }) =>
      invariant.includes('expiry'),
    ).length;
  expect(find({ [START / 1_000 + 5]: 300 })).toBe(0);
  expect(find({ [START / 1_000 + 10]: 5_000 })).toBe(1);
});

test('a second fault is of another object', () => {
  const settings = { minutes: 60, pushesPerSecond: 1, devices: { a: 100, b: 10 }, topics: 2 };
  const { faults } = buildPlan({ seed: 7, ...settings });
  const byTick = Map.groupBy(faults, ({ atMs }) => Math.floor((atMs - 10_000) / 20_000));
  const pairs = [...byTick.values()].filter((group) => group.length > 1);
  expect(pairs.length).toBeGreaterThan(30);
  for (const [first, second] of pairs) {
    if (first === undefined || second === undefined) throw new Error('a pair has two faults');
    expect(objectOf(first)).not.toBe(objectOf(second));
  }
});
