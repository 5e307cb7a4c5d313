import { expect, test } from '@jest/globals';
import { check, INVARIANT_NAMES, type InvariantName } from './checker.ts';
import {
  againOverFcm,
  arrival,
  change,
  collapsed,
  device,
  endOf,
  FAILED,
  failed,
  gone,
  goodRun,
  ID,
  killed,
  NEWER_ID,
  NOTHING_LEFT,
  OLDER_ID,
  ok,
  overFcm,
  refusal,
  refused,
  refusedAfter,
  repeatedWhenGone,
  reported,
  START,
  STOPPED_API,
  sampledAs,
  sent,
  supersededByUnknown,
  toMany,
  twoTenants,
  unanswered,
  unknown,
  withGone,
  withReportedFlag,
} from './good-runs.ts';
import type { History } from './history.ts';
import { buildPlan, objectOf } from './plan.ts';

/** For each invariant, runs with one fault in them. */
const BAD_RUNS: Record<InvariantName, Partial<History>[]> = {
  'one id for each key': [
    change({ tries: [ok(ID, 2), ok(NEWER_ID, 2)] }),
    change({ stored: [ID, NEWER_ID].map((id) => ({ id, acceptedAtMs: START })) }),
    change({ stored: [{ id: NEWER_ID, acceptedAtMs: START }] }),
  ],
  'each accepted recipient has one end': [
    { ends: {} },
    { ends: { [ID]: { ...endOf({ a: 'delivered', b: 'sent' }), counts: { delivered: 1 } } } },
    { ends: { [ID]: endOf({ a: 'delivered', b: 'pending' }) } },
    { ...change(unanswered(ID)), ends: {}, faults: [STOPPED_API] },
    {
      ...{ ...change(unanswered(ID)), faults: [STOPPED_API] },
      ends: { [ID]: endOf({ a: 'delivered', b: 'pending' }) },
    },
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
    // A newer push that is not stored, and an older one.
    supersededByUnknown(undefined),
    supersededByUnknown(OLDER_ID, 'new'),
    // One without a response, which did not come to all.
    { ...change(unanswered(ID)), arrivals: [arrival('one', 'a')], faults: [STOPPED_API] },
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
    {
      ...change({ ttlSeconds: 4, ...unanswered(ID, START - 1_000) }),
      arrivals: [arrival('one', 'a', START + 4_200)],
    },
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
    { ...change({ isInvalid: true, ...unanswered(ID) }), arrivals: [] },
    {
      ...change({ tries: [FAILED], stored: [{ id: ID, acceptedAtMs: START }] }),
      arrivals: [],
    },
  ],
  'an unknown push is there whole or not at all': [
    {
      ...change({ tries: [unknown(START)] }),
      arrivals: [arrival('one', 'a')],
    },
    { ...change(unanswered(undefined)), arrivals: [arrival('one', 'a'), overFcm('one', 'b')] },
    { ...change({ ...unanswered(undefined), ttlSeconds: 4 }), arrivals: [arrival('one', 'a')] },
    { ...change(unanswered(ID)), arrivals: [arrival('one', 'a')] },
    // Only another device is gone.
    {
      ...{ ...change(unanswered(ID)), arrivals: [arrival('one', 'a')] },
      gone: [gone('c')],
    },
  ],
  'a device is gone when its provider says so, and not before': [
    withGone({ gone: [] }),
    withGone({ refusals: [] }),
    // Another push was refused when this one had ended.
    withGone({ refusals: [refusal('two', 'b', START + 261)] }),
    // FCM is the second way to a device with MQTT.
    withGone({ gone: [gone('b', { channel: 'fcm' })] }),
    // A push that the provider refused, and one that was sent afterwards.
    withGone({ ends: { ...withGone().ends, [NEWER_ID]: endOf({ a: 'delivered', b: 'sent' }) } }),
    withGone({
      refusals: [refusal('one', 'b')],
      arrivals: [arrival('one', 'a'), arrival('two', 'a', START + 140)],
    }),
    withGone({
      refusals: [],
      ends: { ...withGone().ends, [NEWER_ID]: endOf({ a: 'delivered', b: 'expired' }) },
    }),
  ],
  'a device that is gone has its flag, and no other': [
    withGone({ flags: {} }),
    withGone({ flags: { b: 'unsubscribed' } }),
    withGone({ flags: { a: 'uninstalled', b: 'uninstalled' } }),
    withGone({ gone: [gone('b', { channel: 'web-push' })] }),
    { flags: { b: 'uninstalled' } },
  ],
  'nothing is sent to a device with a flag': [
    withGone({ gone: [gone('b', { flaggedAtMs: START + 120 })] }),
    withGone({
      gone: [gone('a', { channel: 'fcm', flaggedAtMs: START + 120 })],
      arrivals: [...withGone().arrivals, overFcm('two', 'a', START + 150)],
    }),
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
    // The provider accepted it, no fault has lost that outcome, and the push was not repeated.
    { ...repeatedWhenGone(), refusals: [refusal('two', 'b')], faults: [] },
    { ...repeatedWhenGone(), gone: [] },
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
  'each event is reported, and no other': [
    { ...twoTenants(), reports: reported({}) },
    { ...twoTenants(), reports: reported({ [NEWER_ID]: { c: ['expired'] } }) },
    {
      ...twoTenants(),
      reports: { ...reported({ [NEWER_ID]: { c: ['delivered'] } }), wrongRequests: 1 },
    },
    {
      ...twoTenants(),
      reports: reported({ [NEWER_ID]: { c: ['delivered'] } }, { finished: [] }),
    },
    // The push is the other tenant's.
    {
      ...twoTenants(),
      reports: reported({ [NEWER_ID]: { c: ['delivered'] }, [ID]: { a: ['delivered'] } }),
    },
    {
      ...twoTenants(),
      reports: reported({ [NEWER_ID]: { c: ['delivered'] } }, { finished: [NEWER_ID, ID] }),
    },
    withReportedFlag({}),
    withReportedFlag({ c: ['uninstalled'], d: ['unsubscribed'] }),
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
  expect(check({ ...goodRun(), ...supersededByUnknown(NEWER_ID, 'new') })).toEqual([]);
  expect(check(twoTenants())).toEqual([]);
  const expired = change({ ttlSeconds: 5 });
  const forNow = change({ ttlSeconds: 0 });
  const ends = { [ID]: endOf({ a: 'delivered', b: 'expired' }) };
  expect(check({ ...goodRun(), ...expired, ends, arrivals: [arrival('one', 'a')] })).toEqual([]);
  const lastMoment = [arrival('one', 'a', START + 6_000)];
  expect(check({ ...goodRun(), ...forNow, ends, arrivals: lastMoment })).toEqual([]);
});

test('a device may be gone for a push that came to it, if that was lost and repeated', () => {
  expect(check(withGone())).toEqual([]);
  expect(check(withGone({ gone: [gone('b', { flaggedAtMs: START + 121 })] }))).toEqual([]);
  expect(check(withGone({ refusals: [refusal('two', 'b', START + 260)] }))).toEqual([]);
  expect(check(repeatedWhenGone())).toEqual([]);
  const refusals = [refusal('two', 'b')];
  const faults = [{ fault: 'kill delivery-worker', atMs: START + 50, healedAtMs: START + 50 }];
  expect(check({ ...repeatedWhenGone(), refusals, faults })).toEqual([]);
  expect(check(withReportedFlag({ c: ['uninstalled'] }))).toEqual([]);
});

test('a push without a response is there whole, but for devices that are gone, or not at all', () => {
  const faults = [STOPPED_API];
  const whole = { ...goodRun(), ...change(unanswered(ID)), faults };
  expect(check(whole)).toEqual([]);
  const nothing = { ...whole, ...change(unanswered(undefined)), arrivals: [], ends: {} };
  expect(check({ ...nothing, shown: { a: [], b: [] } })).toEqual([]);
  const { pushes, ...run } = withGone({ faults });
  const second = sent('two', ['a', 'b'], unanswered(NEWER_ID));
  expect(check({ ...run, pushes: [...pushes.slice(0, 1), second] })).toEqual([]);
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
  const devices = { devices: { a: 100, b: 10 }, mqttOnly: { a: 60, b: 5 } };
  const settings = { minutes: 2, pushesPerSecond: 5, topics: 2, ...devices };
  expect(buildPlan({ seed: 7, ...settings })).toEqual(buildPlan({ seed: 7, ...settings }));
  expect(buildPlan({ seed: 7, ...settings })).not.toEqual(buildPlan({ seed: 8, ...settings }));
  const { faults, pushes } = buildPlan({ seed: 7, ...settings });
  // One every 20 s, and others of other objects that begin while these last.
  expect(faults.filter(({ atMs }) => atMs % 20_000 === 10_000).length).toBeGreaterThanOrEqual(6);
  expect(pushes.length).toBeGreaterThan(400);
  expect(pushes.filter(({ isInvalid }) => isInvalid).length).toBeGreaterThan(3);
});

test('some devices with a provider become gone, and nothing else of the plan depends on that', () => {
  const devices = { a: 100, b: 10 };
  const settings = { seed: 7, minutes: 2, pushesPerSecond: 5, topics: 2, devices };
  const { gone: planned, ...plan } = buildPlan({ ...settings, mqttOnly: { a: 60, b: 5 } });
  expect(planned.map(({ tenant }) => tenant).sort()).toEqual(['a', 'a', 'a', 'a', 'b']);
  for (const { atMs, tenant, device: index } of planned) {
    expect(index).toBeGreaterThanOrEqual(tenant === 'a' ? 60 : 5);
    expect(index).toBeLessThan(devices[tenant]);
    expect(atMs).toBeGreaterThan(0);
    expect(atMs).toBeLessThan(120_000);
  }
  expect(buildPlan({ ...settings, mqttOnly: devices })).toEqual({ ...plan, gone: [] });
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
  const devices = { devices: { a: 100, b: 10 }, mqttOnly: { a: 60, b: 5 } };
  const settings = { minutes: 60, pushesPerSecond: 1, topics: 2, ...devices };
  const { faults } = buildPlan({ seed: 7, ...settings });
  const byTick = Map.groupBy(faults, ({ atMs }) => Math.floor((atMs - 10_000) / 20_000));
  const pairs = [...byTick.values()].filter((group) => group.length > 1);
  expect(pairs.length).toBeGreaterThan(30);
  for (const [first, second] of pairs) {
    if (first === undefined || second === undefined) throw new Error('a pair has two faults');
    expect(objectOf(first)).not.toBe(objectOf(second));
  }
});
