import {
  type Arrival,
  type DeviceEnd,
  type GoneDevice,
  type History,
  LEFT,
  type ProcessEnd,
  type PushEnd,
  type PushSample,
  type Refusal,
  type Reports,
  type SentPush,
  type Try,
} from './history.ts';
import { LONG_TTL_SECONDS } from './plan.ts';

export const START = 1_000_000;
export const OLDER_ID = '0'.repeat(24);
export const ID = '1'.repeat(24);
export const NEWER_ID = '2'.repeat(24);

export const ok = (id: string, devices: number): Try => ({
  ...{ end: 'ok', startedAtMs: START, endedAtMs: START + 10, status: 200, id, devices },
});

export const sent = (
  mark: string,
  audience: string[],
  fields: Partial<SentPush> = {},
): SentPush => ({
  ...{
    tenant: 'a',
    mark,
    audience,
    ttlSeconds: LONG_TTL_SECONDS,
    tries: [ok(ID, audience.length)],
  },
  ...fields,
});

export const arrival = (mark: string, token: string, atMs = START + 20): Arrival => ({
  ...{ mark, token, atMs, channel: 'mqtt', connection: 1 },
});

export const overFcm = (mark: string, token: string, atMs = START + 20): Arrival => ({
  ...{ mark, token, atMs, channel: 'fcm', connection: 0 },
});

const countOf = (recipients: Record<string, string>): Record<string, number> =>
  Object.fromEntries(
    [...Map.groupBy(Object.values(recipients), (name) => name)].map(([name, all]) => [
      name,
      all.length,
    ]),
  );

export const endOf = (recipients: Record<string, string>): PushEnd => {
  const outcomes = { counts: countOf(recipients), recipients };
  return { ...outcomes, stored: outcomes, sample: { ...outcomes, pendingDevices: [] } };
};

/** The end of a push that was delivered to a and sent to b, with another answer in the sample. */
export const sampledAs = (sample: Partial<PushSample>): PushEnd => {
  const end = endOf({ a: 'delivered', b: 'sent' });
  return { ...end, sample: { ...end.stored, ...sample } };
};

export const device = (token: string, fields: Partial<DeviceEnd>): DeviceEnd => ({
  ...{ token, isConnected: true, isOnline: true, pendingNotifications: 0 },
  ...fields,
});

export const NOTHING_LEFT = Object.fromEntries(LEFT.map((kind) => [kind, 0])) as History['left'];

export const killed = (process: string): ProcessEnd => ({ process, reason: 'SIGKILL' });

/** A run of one push to two devices that kept every guarantee. */
export function goodRun(): History {
  return {
    seed: 1,
    pushes: [sent('one', ['a', 'b'])],
    ...{ probes: [], refusals: [], gone: [], flags: {} },
    // The device a got it over FCM as well.
    arrivals: [arrival('one', 'a'), overFcm('one', 'a'), overFcm('one', 'b')],
    ends: { [ID]: endOf({ a: 'delivered', b: 'sent' }) },
    removed: [],
    settledAtMs: START + 60_000,
    observerLags: { [START / 1_000]: 100 },
    left: NOTHING_LEFT,
    devices: [device('a', {}), device('b', { isConnected: false, isOnline: false })],
    shown: { a: [ID], b: [] },
    reports: reported({}),
    faults: [{ fault: 'kill api', index: 1, atMs: START + 30_000, healedAtMs: START + 30_000 }],
    ...{ failedFaults: [], refusedConnects: [] },
    deaths: [killed('api 1')],
    kills: ['api 1'],
    memory: [{ service: 'api', before: 100, after: 119 }],
  };
}

export function change(push: Partial<SentPush>): Partial<History> {
  return { pushes: [sent('one', ['a', 'b'], push)] };
}

/** A run of an older and a newer push of one collapse key, in the order of these arrivals. */
export function collapsed(...marks: string[]): Partial<History> {
  const newer = { collapse: 'key', tries: [ok(NEWER_ID, 1)] };
  return {
    pushes: [sent('old', ['a'], { collapse: 'key' }), sent('new', ['a'], newer)],
    arrivals: marks.map((mark, index) => arrival(mark, 'a', START + 1_000 * index)),
    ends: { [ID]: endOf({ a: 'superseded' }), [NEWER_ID]: endOf({ a: 'delivered' }) },
    shown: { a: [ID, NEWER_ID], b: [] },
  };
}

export const unknown = (endedAtMs: number): Try => ({
  end: 'unknown',
  startedAtMs: START,
  endedAtMs,
});

/** A good run in which the first request failed so long after the start, and was repeated. */
export const failed = (afterMs: number): Partial<History> => {
  const startedAtMs = START + afterMs;
  return change({
    tries: [{ end: 'unknown', startedAtMs, endedAtMs: startedAtMs + 10, status: 503 }, ok(ID, 2)],
  });
};

/** A good run in which a repeated request was refused so long after the start. */
export const refusedAfter = (endedAtMs: number, push: Partial<SentPush> = {}): Partial<History> =>
  change({
    ...push,
    tries: [ok(ID, 2), { end: 'fail', startedAtMs: START, endedAtMs, status: 400 }],
  });

export const STOPPED_API = { fault: 'stop api', atMs: START, healedAtMs: START + 5_000 };

/** Fields of a push without a response that is in the database under this id, or is not there. */
export const unanswered = (id: string | undefined, acceptedAtMs = START): Partial<SentPush> => ({
  ...{ tries: [unknown(START + 10)], stored: id === undefined ? [] : [{ id, acceptedAtMs }] },
});

/** A run of a push that was superseded by one without a response. */
export function supersededByUnknown(
  storedId: string | undefined,
  ...marks: string[]
): Partial<History> {
  const { pushes = [], ends = {}, ...run } = collapsed('new');
  const newer = sent('new', ['a'], { collapse: 'key', ...unanswered(storedId) });
  const ids = storedId === undefined ? [] : [storedId];
  return {
    ...{ ...run, pushes: [...pushes.slice(0, 1), newer] },
    ends: { ...ends, ...Object.fromEntries(ids.map((id) => [id, endOf({ a: 'delivered' })])) },
    ...{ arrivals: marks.map((mark) => arrival(mark, 'a')), shown: { a: [ID, ...ids], b: [] } },
    faults: [STOPPED_API],
  };
}

export const reported = (
  outcomes: Reports['outcomes'],
  { finished = Object.keys(outcomes), flags = {} }: Partial<Reports> = {},
): Reports => ({
  ...{ tenant: 'b', sinceMs: START, outcomes, finished, flags, wrongRequests: 0 },
});

/** A good run with a push of the second tenant to its device. */
export function twoTenants(): History {
  const { pushes, arrivals, ends, ...run } = goodRun();
  return {
    ...run,
    pushes: [...pushes, sent('of b', ['c'], { tenant: 'b', tries: [ok(NEWER_ID, 1)] })],
    arrivals: [...arrivals, arrival('of b', 'c')],
    ends: { ...ends, [NEWER_ID]: finishedAt(START + 1_000, endOf({ c: 'delivered' })) },
    shown: { a: [ID], b: [NEWER_ID] },
    reports: reported({ [NEWER_ID]: { c: ['sent', 'delivered'] } }),
  };
}

const finishedAt = (finishedAtMs: number, end: PushEnd): PushEnd => ({
  ...end,
  stored: { ...end.stored, finishedAtMs },
});

export const gone = (token: string, fields: Partial<GoneDevice> = {}): GoneDevice => ({
  ...{ tenant: 'a', token, channel: 'apns', startedAtMs: START + 90, goneAtMs: START + 100 },
  ...fields,
});

export const refusal = (mark: string, token: string, atMs = START + 150): Refusal => ({
  ...{ mark, token, atMs, channel: 'apns' },
});

const overApns = (mark: string, token: string, atMs?: number): Arrival => ({
  ...overFcm(mark, token, atMs),
  channel: 'apns',
});

const startedAt = (startedAtMs: number): Partial<SentPush> => ({
  tries: [{ ...ok(NEWER_ID, 2), startedAtMs, endedAtMs: startedAtMs + 10 }],
});

/** A good run of two pushes to two devices, of which one is gone at APNs for the second. */
export function withGone(changes: Partial<History> = {}): History {
  return {
    ...goodRun(),
    pushes: [sent('one', ['a', 'b']), sent('two', ['a', 'b'], startedAt(START + 120))],
    arrivals: [
      ...[arrival('one', 'a'), overApns('one', 'b')],
      ...[arrival('two', 'a', START + 140)],
    ],
    ends: {
      [ID]: finishedAt(START + 60, endOf({ a: 'delivered', b: 'sent' })),
      [NEWER_ID]: finishedAt(START + 160, endOf({ a: 'delivered', b: 'gone' })),
    },
    shown: { a: [ID, NEWER_ID], b: [] },
    ...{ gone: [gone('b')], refusals: [refusal('two', 'b')], flags: { b: 'uninstalled' } },
    ...changes,
  };
}

/** A good run of the device that is gone, in which its provider had accepted the first push and then refused it. */
export function repeatedWhenGone(): History {
  const { ends } = withGone();
  return withGone({
    ends: { ...ends, [ID]: finishedAt(START + 200, endOf({ a: 'delivered', b: 'gone' })) },
    refusals: [refusal('one', 'b'), refusal('two', 'b')],
  });
}

/** A good run of the second tenant's device that gets a flag. */
export function withReportedFlag(flags: Reports['flags']): History {
  const run = twoTenants();
  const device = gone('c', { tenant: 'b', channel: 'fcm' });
  return {
    ...{ ...run, gone: [device], flags: { c: 'uninstalled' } },
    reports: reported(run.reports.outcomes, { flags }),
  };
}

export const FAILED: Try = { end: 'fail', startedAtMs: START, endedAtMs: START, status: 400 };
export const refused = change({ tries: [FAILED] });

/** A run of so many recipients that twenty duplicates are below the share that is allowed. */
export const toMany = (): Partial<History> => ({
  pushes: [
    sent(
      'one',
      Array.from({ length: 20_000 }, (_, n) => `d${n}`),
    ),
  ],
});

/** A push that came to a device over FCM, and so often again at this time. */
export const againOverFcm = (count: number, atMs: number): Arrival[] => [
  overFcm('one', 'd0'),
  ...Array.from({ length: count }, () => overFcm('one', 'd0', atMs)),
];
