import { expect, test } from '@jest/globals';
import type { Channel } from '../../packages/core/src/channels.ts';
import { check, INVARIANT_NAMES, type InvariantName } from './checker.ts';
import {
  type Arrival,
  type GoneDevice,
  type History,
  LEFT,
  type PushEnd,
  type Refusal,
  type Reports,
  type SentPush,
  type Try,
} from './history.ts';
import { LONG_TTL_SECONDS } from './plan.ts';

type Run = Partial<History>;
const START = 1_000_000;
const OLDER_ID = '0'.repeat(24);
const ID = '1'.repeat(24);
const NEWER_ID = '2'.repeat(24);
const STOPPED_API = [{ fault: 'stop api', atMs: START, healedAtMs: START + 5_000 }];
const NOTHING_LEFT = Object.fromEntries(LEFT.map((kind) => [kind, 0])) as History['left'];

const ok = (id = ID, startedAtMs = START): Try => ({
  ...{ end: 'ok', startedAtMs, endedAtMs: startedAtMs + 10, status: 200, id },
});
const fail = (endedAtMs = START): Try => ({
  ...{ end: 'fail', startedAtMs: START, endedAtMs, status: 400 },
});
const unknown: Try = { end: 'unknown', startedAtMs: START, endedAtMs: START + 10 };
const storedAs = (...ids: string[]) => ids.map((id) => ({ id, acceptedAtMs: START }));
/** A push without a response that is in the database under this id, or is not there. */
const unanswered = (id?: string, acceptedAtMs = START) => ({
  ...{ tries: [unknown], stored: id === undefined ? [] : [{ id, acceptedAtMs }] },
});

const sent = (mark: string, audience: string[], fields: Partial<SentPush> = {}): SentPush => ({
  ...{ tenant: 'a', mark, audience, ttlSeconds: LONG_TTL_SECONDS, tries: [ok()] },
  ...fields,
});
const change = (push: Partial<SentPush>): Run => ({ pushes: [sent('one', ['a', 'b'], push)] });

/** An arrival such as `one a`, or `one a fcm +5200` over another channel and that many milliseconds after the start. */
function arrival(text: string): Arrival {
  const [, mark = '', token = '', channel = 'mqtt', afterMs = 20] =
    /^(.+?) (\w+)(?: (fcm|apns))?(?: \+(\d+))?$/.exec(text) ?? [];
  const connection = channel === 'mqtt' ? 1 : 0;
  return { mark, token, channel: channel as Channel, atMs: START + Number(afterMs), connection };
}
const arrived = (...texts: string[]) => ({ arrivals: texts.map(arrival) });
/** Devices a and b got the push, a over FCM as well. */
const GOOD = ['one a', 'one a fcm', 'one b fcm'];

function endOf(recipients: Record<string, string>, fields: Partial<PushEnd> = {}): PushEnd {
  const groups = Map.groupBy(Object.values(recipients), (name) => name);
  const counts = Object.fromEntries([...groups].map(([name, all]) => [name, all.length]));
  const outcomes = { counts, recipients };
  return { ...outcomes, stored: outcomes, sample: { ...outcomes, pendingDevices: [] }, ...fields };
}
const GOOD_END = { a: 'delivered', b: 'sent' };
const ended = (recipients: Record<string, string>, fields: Partial<PushEnd> = {}) => ({
  ends: { [ID]: endOf(recipients, fields) },
});
const endedWith = (fields: Partial<PushEnd>) => ended(GOOD_END, fields);
const finishedAt = (afterMs: number, recipients: Record<string, string>): PushEnd => {
  const end = endOf(recipients);
  return { ...end, stored: { ...end.stored, finishedAtMs: START + afterMs } };
};

const reported = (outcomes: Reports['outcomes'], fields: Partial<Reports> = {}): Reports => ({
  ...{ tenant: 'b', sinceMs: START, outcomes, finished: Object.keys(outcomes), flags: {} },
  ...{ wrongRequests: 0, ...fields },
});
const device = (fields: Partial<History['devices'][number]> = {}) => ({
  devices: [{ token: 'a', isConnected: true, isOnline: true, pendingNotifications: 0, ...fields }],
});
const killed = (process: string) => ({ process, reason: 'SIGKILL' });

/** A run of one push to two devices that kept every guarantee, but for the changes. */
const goodRun = (changes: Run = {}): History => ({
  ...{ seed: 1, pushes: [sent('one', ['a', 'b'])], probes: [], refusals: [], gone: [], flags: {} },
  ...{ ...arrived(...GOOD), ...ended(GOOD_END), settledAtMs: START + 60_000, left: NOTHING_LEFT },
  ...{ observerLags: { [START / 1_000]: 100 }, ...device(), shown: { a: [ID], b: [] } },
  ...{ reports: reported({}), failedFaults: [], refusedConnects: [] },
  faults: [{ fault: 'kill api', index: 1, atMs: START + 30_000, healedAtMs: START + 30_000 }],
  ...{ deaths: [killed('api 1')], kills: ['api 1'] },
  memory: [{ service: 'api', before: 100, after: 119 }],
  ...changes,
});

/** A run of an older and a newer push of one collapse key. */
function collapsed(newer: Partial<SentPush>, ids: string[], ...arrivals: string[]): Run {
  const ofNewer = ids.map((id) => [id, endOf({ a: 'delivered' })]);
  return {
    pushes: [
      sent('old', ['a'], { collapse: 'key' }),
      sent('new', ['a'], { collapse: 'key', ...newer }),
    ],
    ends: { [ID]: endOf({ a: 'superseded' }), ...Object.fromEntries(ofNewer) },
    ...{ ...arrived(...arrivals), shown: { a: [ID, ...ids], b: [] } },
  };
}
const bothCame = (...arrivals: string[]) =>
  collapsed({ tries: [ok(NEWER_ID)] }, [NEWER_ID], ...arrivals);
/** The newer push has no response. */
const supersededByUnknown = (id: string | undefined, ...arrivals: string[]): Run => ({
  ...collapsed(unanswered(id), id === undefined ? [] : [id], ...arrivals),
  faults: STOPPED_API,
});

/** A good run with a push of the second tenant to its device. */
const TWO_TENANTS: Run = {
  pushes: [sent('one', ['a', 'b']), sent('of b', ['c'], { tenant: 'b', tries: [ok(NEWER_ID)] })],
  ...arrived(...GOOD, 'of b c'),
  ends: { ...endedWith({}).ends, [NEWER_ID]: finishedAt(1_000, { c: 'delivered' }) },
  shown: { a: [ID], b: [NEWER_ID] },
  reports: reported({ [NEWER_ID]: { c: ['sent', 'delivered'] } }),
};
const withReports = (outcomes: Reports['outcomes'], fields: Partial<Reports> = {}): Run => ({
  ...{ ...TWO_TENANTS, reports: reported(outcomes, fields) },
});
const REPORTED = { [NEWER_ID]: { c: ['delivered'] } };
/** A good run of the second tenant's device that gets a flag. */
const withReportedFlag = (flags: Reports['flags']): Run => ({
  ...withReports(REPORTED, { flags }),
  ...{ gone: [gone('c', { tenant: 'b', channel: 'fcm' })], flags: { c: 'uninstalled' } },
});

const gone = (token: string, fields: Partial<GoneDevice> = {}): GoneDevice => ({
  ...{ tenant: 'a', token, channel: 'apns', startedAtMs: START + 90, goneAtMs: START + 100 },
  ...fields,
});
const refusal = (mark: string, afterMs = 150): Refusal => ({
  ...{ mark, token: 'b', atMs: START + afterMs, channel: 'apns' },
});
const goneEnds = (first: PushEnd, b = 'gone') => ({
  ...{ [ID]: first, [NEWER_ID]: finishedAt(160, { a: 'delivered', b }) },
});
/** A good run of two pushes to two devices, of which one is gone at APNs for the second. */
const withGone = (changes: Run = {}): Run => ({
  pushes: ['one', 'two'].map((mark, n) =>
    sent(mark, ['a', 'b'], n === 0 ? {} : { tries: [ok(NEWER_ID, START + 120)] }),
  ),
  ...{ ...arrived('one a', 'one b apns', 'two a +140'), shown: { a: [ID, NEWER_ID], b: [] } },
  ends: goneEnds(finishedAt(60, GOOD_END)),
  ...{ gone: [gone('b')], refusals: [refusal('two')], flags: { b: 'uninstalled' }, ...changes },
});
/** The provider had accepted the first push and then refused it. */
const repeatedWhenGone = (changes: Run = {}): Run =>
  withGone({
    ends: goneEnds(finishedAt(200, { a: 'delivered', b: 'gone' })),
    ...{ refusals: [refusal('one'), refusal('two')], ...changes },
  });

/** A run in which the first request failed so long after the start, and was repeated. */
const failedAfter = (afterMs: number, faults?: History['faults']): Run => ({
  ...change({
    tries: [{ ...unknown, startedAtMs: START + afterMs, endedAtMs: START + afterMs + 10 }, ok()],
  }),
  ...(faults && { faults }),
});
const deleted = change({ deletion: { startedAtMs: START, deletedAtMs: START } });
const refused = change({ tries: [fail()] });
/** A run of so many recipients that twenty duplicates are below the share that is allowed. */
const toMany = (count: number, text: string): Run => {
  const audience = Array.from({ length: 20_000 }, (_, n) => `d${n}`);
  return { pushes: [sent('one', audience)], ...arrived(...Array<string>(count).fill(text)) };
};
const missedB = { ...arrived('one a') };
const endsB = (b: string): Run => ({ ...missedB, ...ended({ a: 'delivered', b }) });

/** For each invariant, runs with one fault in them. */
const BAD_RUNS: Record<InvariantName, Run[]> = {
  'one id for each key': [
    change({ tries: [ok(), ok(NEWER_ID)] }),
    change({ stored: storedAs(ID, NEWER_ID) }),
    change({ stored: storedAs(NEWER_ID) }),
  ],
  'each accepted recipient has one end': [
    { ends: {} },
    endedWith({ counts: { delivered: 1 } }),
    ended({ a: 'delivered', b: 'pending' }),
    { ...change(unanswered(ID)), ends: {}, faults: STOPPED_API },
    { ...change(unanswered(ID)), ...ended({ a: 'delivered', b: 'pending' }), faults: STOPPED_API },
  ],
  'nothing is lost': [
    ...['expired', 'superseded', 'gone', 'deleted', 'failed'].map(endsB),
    // A run of an hour is over, and the time to live is not.
    { ...endsB('expired'), settledAtMs: START + 4_000_000 },
    // A newer push that is not stored, and an older one.
    supersededByUnknown(undefined),
    supersededByUnknown(OLDER_ID, 'new a'),
    // One without a response, which did not come to all.
    { ...change(unanswered(ID)), ...missedB, faults: STOPPED_API },
  ],
  'few duplicates': [
    arrived(...GOOD, 'one a', 'one a'),
    arrived(...GOOD, 'one a fcm', 'one a fcm'),
    toMany(18, 'one d0'),
    // In the window of the one fault, and before it.
    toMany(18, 'one d0 fcm +30000'),
    toMany(18, 'one d0 fcm +29000'),
  ],
  'nothing is early': [
    change({ dueAtMs: START + 30 }),
    { ...change({ dueAtMs: START + 30 }), ...arrived('one a +40', 'one a fcm +29') },
  ],
  'nothing is sent after its expiry': [
    { ...change({ ttlSeconds: 4 }), ...arrived('one a +5200') },
    { ...change({ ttlSeconds: 4 }), ...arrived('one a fcm +5200') },
    { ...change({ ttlSeconds: 0 }), ...arrived('one a +6200') },
    { ...change({ ttlSeconds: 4, ...unanswered(ID, START - 1_000) }), ...arrived('one a +4200') },
  ],
  'nothing is sent after its deletion': ['one a +1200', 'one a fcm +1200'].map((late) => ({
    ...{ ...deleted, ...arrived(late) },
  })),
  'nothing is sent that was refused': [
    refused,
    { ...refused, ...arrived('one a fcm') },
    { ...change({ isInvalid: true }), arrivals: [] },
    { ...change({ isInvalid: true, tries: [unknown] }), ...arrived('one a fcm') },
    { ...change({ isInvalid: true, ...unanswered(ID) }), arrivals: [] },
    { ...change({ tries: [fail()], stored: storedAs(ID) }), arrivals: [] },
  ],
  'an unknown push is there whole or not at all': [
    { ...change({ tries: [unknown] }), ...missedB },
    { ...change(unanswered()), ...arrived('one a', 'one b fcm') },
    { ...change({ ...unanswered(), ttlSeconds: 4 }), ...missedB },
    { ...change(unanswered(ID)), ...missedB },
    // Only another device is gone.
    { ...change(unanswered(ID)), ...missedB, gone: [gone('c')] },
  ],
  'a device is gone when its provider says so, and not before': [
    withGone({ gone: [] }),
    withGone({ refusals: [] }),
    // Another push was refused when this one had ended.
    withGone({ refusals: [refusal('two', 261)] }),
    // FCM is the fallback of a device with MQTT.
    withGone({ gone: [gone('b', { channel: 'fcm', hasMqtt: true })] }),
    // A phone by FCM alone had its push after it was gone.
    withGone({
      gone: [gone('b', { channel: 'fcm' })],
      ends: goneEnds(finishedAt(60, GOOD_END), 'sent'),
    }),
    // A push that the provider refused, and one that was sent afterwards.
    withGone({ ends: goneEnds(finishedAt(60, GOOD_END), 'sent') }),
    withGone({ refusals: [refusal('one')], ...arrived('one a', 'two a +140') }),
    withGone({ refusals: [], ends: goneEnds(finishedAt(60, GOOD_END), 'expired') }),
  ],
  'a device that is gone has its flag, and no other': [
    withGone({ flags: {} }),
    withGone({ flags: { b: 'unsubscribed' } }),
    withGone({ flags: { a: 'uninstalled', b: 'uninstalled' } }),
    withGone({ gone: [gone('b', { channel: 'web-push' })] }),
    // Its CONNECT has ended the flag.
    withGone({
      gone: [gone('b'), gone('a', { channel: 'fcm', hasMqtt: true })],
      flags: { a: 'uninstalled', b: 'uninstalled' },
    }),
    { flags: { b: 'uninstalled' } },
  ],
  'nothing is sent to a device with a flag': [
    withGone({ gone: [gone('b', { flaggedAtMs: START + 120 })] }),
    withGone({
      gone: [gone('a', { channel: 'fcm', hasMqtt: true, flaggedAtMs: START + 120 })],
      ...arrived('one a', 'one b apns', 'two a +140', 'two a fcm +150'),
    }),
  ],
  'the newest push of a collapse key is the last': [
    bothCame('new a +0', 'old a +1000'),
    // The older one comes as a fallback when the device has the newer one.
    bothCame('new a +0', 'old a fcm +1000'),
  ],
  'nothing is left at rest': LEFT.map((what) => ({ left: { ...NOTHING_LEFT, [what]: 1 } })),
  'the status agrees with the devices': [
    endedWith({ counts: { delivered: 2 } }),
    // Routes of the API say different things.
    ...[
      { pendingDevices: ['a'] },
      { counts: { delivered: 2 } },
      { counts: {} },
      { recipients: {} },
      { recipients: { a: 'sent', b: 'delivered' } },
      { recipients: { ...GOOD_END, c: 'sent' } },
    ].map((sample) => endedWith({ sample: { ...endOf(GOOD_END), ...sample } })),
    // The API and the database say different things.
    endedWith({ stored: endOf({ a: 'sent', b: 'delivered' }) }),
    endedWith({ stored: { counts: { delivered: 2 }, recipients: GOOD_END } }),
    ended({ ...GOOD_END, c: 'sent' }),
    ended({ a: 'expired', b: 'sent' }),
    missedB,
    arrived('one a fcm', 'one b fcm'),
    arrived('one a', 'one b'),
    // The provider accepted it, no fault has lost that outcome, and the push was not repeated.
    repeatedWhenGone({ refusals: [refusal('two')], faults: [] }),
    repeatedWhenGone({ gone: [] }),
  ],
  'no valid request is refused': [
    refused,
    change({ tries: [ok(), fail(START + 5_000)] }),
    change({ tries: [ok(), fail(START + 5_000)], dueAtMs: START + 5_001 }),
    { refusedConnects: [{ token: 'a', atMs: START, code: 5 }] },
  ],
  'requests fail only because of faults': [
    failedAfter(29_989),
    failedAfter(42_001),
    failedAfter(30_000, []),
  ],
  'no device gets the push of another': [
    arrived(...GOOD, 'one c'),
    arrived(...GOOD, 'another a'),
    arrived(...GOOD, 'one c fcm'),
    // The device c is the other tenant's.
    { ...TWO_TENANTS, ...arrived(...GOOD, 'of b c', 'one c') },
  ],
  'presence agrees with the devices': [
    device({ isOnline: false }),
    device({ isConnected: false }),
    device({ pendingNotifications: 1 }),
  ],
  'a tenant is shown its own pushes alone': [
    { ...TWO_TENANTS, shown: { a: [ID, NEWER_ID], b: [NEWER_ID] } },
    { ...TWO_TENANTS, shown: { a: [ID], b: [] } },
  ],
  'each event is reported, and no other': [
    withReports({}),
    withReports({ [NEWER_ID]: { c: ['expired'] } }),
    withReports(REPORTED, { wrongRequests: 1 }),
    withReports(REPORTED, { finished: [] }),
    // The push is the other tenant's.
    withReports({ ...REPORTED, [ID]: { a: ['delivered'] } }),
    withReports(REPORTED, { finished: [NEWER_ID, ID] }),
    withReportedFlag({}),
    withReportedFlag({ c: ['uninstalled'], d: ['unsubscribed'] }),
  ],
  'each fault is applied': [{ failedFaults: [{ fault: 'kill api', error: 'no process' }] }],
  'no process ends by itself': [
    { process: 'scheduler', reason: 'exit code 1' },
    { process: 'redis', reason: 'not killed here' },
    // The kernel's OOM killer uses the signal of the run.
    ...['api 1', 'api', 'mongodb'].map(killed),
  ].map((death) => ({ deaths: [killed('api 1'), death] })),
  'memory comes back': [{ memory: [{ service: 'api', before: 100, after: 121 }] }],
};

test.each(
  INVARIANT_NAMES.flatMap((name) => BAD_RUNS[name].map((fault, n) => ({ name, n, fault }))),
)('$name: fault $n is found', ({ name, fault }) => {
  expect(check(goodRun(fault)).map(({ invariant }) => invariant)).toContain(name);
});

const invalid = (mark: string, tries: Try[]) => sent(mark, ['a', 'b'], { isInvalid: true, tries });
/** Runs that kept every guarantee. */
const GOOD_RUNS: Record<string, Run> = {
  'one push': {},
  'a device that is offline': device({ isConnected: false, isOnline: false }),
  'two tenants': TWO_TENANTS,
  'two pushes of a collapse key': bothCame('old a +0', 'new a +1000'),
  'a newer push without a response': supersededByUnknown(NEWER_ID, 'new a'),
  'an expired push': { ...change({ ttlSeconds: 5 }), ...endsB('expired') },
  'a push for now at the last moment': {
    ...{ ...change({ ttlSeconds: 0 }), ...endsB('expired'), ...arrived('one a +6000') },
  },
  'a device that is gone': withGone(),
  'a phone by FCM alone that is gone': withGone({
    ...{ ...arrived('one a', 'one b fcm', 'two a +140'), gone: [gone('b', { channel: 'fcm' })] },
    refusals: [{ ...refusal('two'), channel: 'fcm' }],
  }),
  'a device with MQTT whose flag has ended': withGone({
    gone: [gone('b'), gone('a', { channel: 'fcm', hasMqtt: true, flaggedAtMs: START + 130 })],
  }),
  'a flag that is seen later': withGone({ gone: [gone('b', { flaggedAtMs: START + 121 })] }),
  'a refusal just after the end': withGone({ refusals: [refusal('two', 260)] }),
  'a push that came to a device, was lost and repeated': repeatedWhenGone(),
  'the same, without a second refusal': repeatedWhenGone({
    refusals: [refusal('two')],
    faults: [{ fault: 'kill delivery-worker', atMs: START + 50, healedAtMs: START + 50 }],
  }),
  'a flag that was reported': withReportedFlag({ c: ['uninstalled'] }),
  'a push without a response that is there whole': {
    ...change(unanswered(ID)),
    faults: STOPPED_API,
  },
  'one that is not there': {
    ...{ ...change(unanswered()), arrivals: [], ends: {}, shown: { a: [], b: [] } },
    faults: STOPPED_API,
  },
  'one that is there but for a device that is gone': withGone({
    pushes: [sent('one', ['a', 'b']), sent('two', ['a', 'b'], unanswered(NEWER_ID))],
    faults: STOPPED_API,
  }),
  'a request that fails until a fault': failedAfter(29_990),
  'a request that fails in it': failedAfter(30_000),
  'a request that fails shortly after it': failedAfter(42_000),
  'a schedule that is over': change({ tries: [ok(), fail(START + 15)], dueAtMs: START + 15 }),
  'invalid requests, one of them while the API fails': {
    pushes: [
      sent('one', ['a', 'b']),
      ...[invalid('invalid', [fail()]), invalid('failing', [unknown])],
    ],
    faults: [{ fault: 'kill mongodb', atMs: START, healedAtMs: START + 1_000 }],
  },
};
test.each(Object.entries(GOOD_RUNS))('no violation: %s', (_name, run) => {
  expect(check(goodRun(run))).toEqual([]);
});

test.each([
  [5, 300, 0],
  [10, 5_000, 1],
])('a delay of the observer after %d s by %d ms: %d violations', (afterSeconds, lagMs, found) => {
  const late = { ...change({ ttlSeconds: 4 }), ...arrived('one a +5200') };
  const observerLags = { [START / 1_000 + afterSeconds]: lagMs };
  const violations = check(goodRun({ ...late, observerLags }));
  const ofExpiry = violations.filter(({ invariant }) => invariant.includes('expiry'));
  expect(ofExpiry).toHaveLength(found);
});
