/** Two tenants, of which the second has a small load. */
export const TENANT_NAMES = ['a', 'b'] as const;
export type TenantName = (typeof TENANT_NAMES)[number];

/** Services of which two processes run. */
export const SERVICES: readonly string[] = [
  ...['api', 'delivery-worker', 'scheduler', 'device-gateway', 'dashboard'],
];

/** Faults of a run; a seed decides their order. */
export const FAULTS = [
  ...['kill api', 'kill delivery-worker', 'kill scheduler', 'kill device-gateway'],
  ...['kill dashboard', 'stop api', 'stop delivery-worker', 'stop scheduler'],
  ...['stop device-gateway', 'stop dashboard', 'kill redis', 'stop redis', 'flush redis'],
  ...['roll back redis', 'cut redis', 'drop responses of redis', 'kill mongodb', 'stop mongodb'],
  ...['cut mongodb', 'drop responses of mongodb', 'slow mongodb', 'cut devices', 'slow apns'],
  ...['silent fcm', 'dropping web-push'],
] as const;
export type FaultName = (typeof FAULTS)[number];

/** One fault of a run. */
export interface PlannedFault {
  /** Milliseconds from the start of the load. */
  atMs: number;
  fault: FaultName;
  /** Which of the two processes. */
  index: number;
  durationMs: number;
}

/** One push of a run; audiences are numbers of devices in the order of their registration. */
export interface PlannedPush {
  atMs: number;
  tenant: TenantName;
  audience: { devices: number[] } | { topic: number };
  ttlSeconds: number;
  /** Seconds after the request, rounded up to the API's unit. */
  delaySeconds?: number;
  collapse?: number;
  /** Milliseconds after the response at which it is deleted. */
  deleteAfterMs?: number;
  /** Its request is not repeated when it fails, so that it is not known whether it was accepted. */
  isTriedOnce?: boolean;
  /** The API has to refuse it. */
  isInvalid?: boolean;
}

/** Plan of a run; the same settings give the same plan. */
export interface Plan {
  seed: number;
  faults: PlannedFault[];
  pushes: PlannedPush[];
  /** Devices, by their number in the order of registration, that their provider reports as gone from a time on. */
  gone: { atMs: number; tenant: TenantName; device: number }[];
}

/** Settings of a run. */
export interface PlanSettings {
  seed: number;
  minutes: number;
  pushesPerSecond: number;
  /** Registered devices of each tenant, of all channels. */
  devices: Record<TenantName, number>;
  /** Of these the first have MQTT alone. The others have a provider. */
  mqttOnly: Record<TenantName, number>;
  topics: number;
  /** A fault begins after each of these times. */
  faultEveryMs?: number;
  /** Faults to choose from. */
  faults?: readonly [FaultName, ...FaultName[]];
}

const FAULT_EVERY_MS = 20_000;
/** Chance that a second fault of another object begins so soon after a fault that both last at once. */
const SECOND_FAULTS = 0.35;
const SECOND_FAULT_AFTER_MS = 4_000;
/** Time to live of pushes that no run outlasts: they may not expire. */
export const LONG_TTL_SECONDS = 86_400;
const COLLAPSE_KEYS = 5;
/** Part of the pushes whose request is not repeated. */
const TRIED_ONCE = 0.1;
/** Pushes that the API has to refuse, besides each of the others. */
const INVALID = 0.02;
/** Part of the pushes that the second tenant sends. */
const SMALL_LOAD = 0.06;
/** Part of the devices with a provider that become gone. */
const GONE = 0.1;
/** Parts of a run between which they do: pushes follow to most of them. */
const GONE_FROM = 0.1;
const GONE_TO = 0.7;

/** Builds the plan of a seed. Each part has random numbers of its own. */
export function buildPlan(settings: PlanSettings): Plan {
  return {
    seed: settings.seed,
    faults: planFaults(settings),
    pushes: planPushes(settings),
    gone: planGone(settings),
  };
}

function planFaults({
  seed,
  minutes,
  faultEveryMs = FAULT_EVERY_MS,
  faults: choice = FAULTS,
}: PlanSettings): PlannedFault[] {
  const lengthMs = minutes * 60_000;
  const forFaults = createRandom(seed);
  const faults: PlannedFault[] = [];
  for (let atMs = faultEveryMs / 2; atMs < lengthMs; atMs += faultEveryMs) {
    const first = planFault(forFaults, choice, atMs);
    const afterMs = forFaults.between(0, SECOND_FAULT_AFTER_MS);
    const second = planFault(forFaults, choice, atMs + afterMs);
    const isTogether = forFaults.next() < SECOND_FAULTS && objectOf(second) !== objectOf(first);
    faults.push(first, ...(isTogether ? [second] : []));
  }
  return faults;
}

function planPushes({ seed, minutes, ...settings }: PlanSettings): PlannedPush[] {
  const lengthMs = minutes * 60_000;
  const forPushes = createRandom(seed + 1);
  const pushes: PlannedPush[] = [];
  for (let atMs = 0; atMs < lengthMs; ) {
    const tenant = forPushes.next() < SMALL_LOAD ? 'b' : 'a';
    const devices = settings.devices[tenant];
    const push = planPush(forPushes, { devices, topics: settings.topics });
    const isTriedOnce = forPushes.next() < TRIED_ONCE;
    pushes.push({
      ...{ atMs: Math.round(atMs), tenant, ...push },
      ...(isTriedOnce && { isTriedOnce }),
    });
    atMs -= (Math.log(1 - forPushes.next()) * 1_000) / settings.pushesPerSecond;
  }
  const forInvalid = createRandom(seed + 2);
  return pushes.flatMap((push): PlannedPush[] => {
    const { atMs, tenant, audience, ttlSeconds } = push;
    if (forInvalid.next() >= INVALID) return [push];
    return [push, { atMs, tenant, audience, ttlSeconds, isInvalid: true }];
  });
}

function planGone({ seed, minutes, devices, mqttOnly }: PlanSettings): Plan['gone'] {
  const lengthMs = minutes * 60_000;
  const forGone = createRandom(seed - 1);
  const gone = TENANT_NAMES.flatMap((tenant) => {
    const first = mqttOnly[tenant];
    const all = Array.from({ length: devices[tenant] - first }, (_, index) => first + index);
    return forGone.sample(all, Math.ceil(all.length * GONE)).map((device) => ({
      atMs: forGone.between(Math.round(GONE_FROM * lengthMs), Math.round(GONE_TO * lengthMs)),
      ...{ tenant, device },
    }));
  });
  return gone.toSorted((a, b) => a.atMs - b.atMs);
}

/** Returns what a fault is about: a process, a server or a provider. */
export function objectOf({ fault, index }: Pick<PlannedFault, 'fault' | 'index'>): string {
  const name = fault.split(' ').at(-1) ?? fault;
  return SERVICES.includes(name) ? `${name} ${index}` : name;
}

function planFault(
  random: Random,
  choice: readonly [FaultName, ...FaultName[]],
  atMs: number,
): PlannedFault {
  const fault = random.pick(choice);
  const index = random.between(0, 1);
  return { atMs, fault, index, durationMs: random.between(2_000, 12_000) };
}

function planPush(
  random: Random,
  { devices, topics }: { devices: number; topics: number },
): Omit<PlannedPush, 'atMs' | 'tenant'> {
  const all = Array.from({ length: devices }, (_, index) => index);
  const some = (most: number) => ({ devices: random.sample(all, random.between(1, most)) });
  const ttlSeconds = LONG_TTL_SECONDS;
  const kind = random.next();
  if (kind < 0.45) return { audience: some(1), ttlSeconds };
  if (kind < 0.63) return { audience: some(20), ttlSeconds };
  if (kind < 0.68) return { audience: { topic: random.between(0, topics - 1) }, ttlSeconds };
  if (kind < 0.78)
    return { audience: some(5), ttlSeconds, collapse: random.between(1, COLLAPSE_KEYS) };
  if (kind < 0.86) return { audience: some(5), ttlSeconds, delaySeconds: random.between(2, 15) };
  if (kind < 0.91) return { audience: some(5), ttlSeconds: 0 };
  if (kind < 0.95) return { audience: some(5), ttlSeconds: random.between(2, 10) };
  const isScheduled = random.next() < 0.5;
  return {
    audience: some(5),
    ttlSeconds,
    deleteAfterMs: random.between(0, 3_000),
    ...(isScheduled && { delaySeconds: random.between(2, 10) }),
  };
}

/** Random numbers that a seed decides. */
export interface Random {
  /** Returns a number from 0 up to 1. */
  next(): number;
  /** Returns an integer from `min` to `max`. */
  between(min: number, max: number): number;
  pick<T>(list: readonly [T, ...T[]]): T;
  /** Returns some of a list, each at most once. */
  sample<T>(list: readonly T[], count: number): T[];
}

/** Creates the numbers of a seed (mulberry32). */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }
  const between = (min: number, max: number) => min + Math.floor(next() * (max - min + 1));
  return {
    next,
    between,
    pick: (list) => list[between(0, list.length - 1)] ?? list[0],
    sample(list, count) {
      const rest = [...list];
      const size = Math.min(count, rest.length);
      return Array.from({ length: size }, () => rest.splice(between(0, rest.length - 1), 1)).flat();
    },
  };
}
