import type { Channel } from '@carillon/core/channels';
import { resultWithin } from '@carillon/core/with-timeout';
import {
  MAX_OPEN_CIRCUITS,
  type OpenCircuit,
  readOpenCircuits,
} from '@carillon/presence/open-circuits';
import type { Redis } from '@carillon/presence/redis';
import { type RedisMemory, readMemory, usedShare } from '@carillon/presence/redis-memory';
import type { QueueName } from '@carillon/queue/jobs';
import { type QueueState, readQueueStates } from '@carillon/queue/queue-states';
import type { RefusalView } from '@carillon/store/credentials';
import type { Store } from '@carillon/store/store';
import { isNearlyFull, MEMORY_ADVICE, summarizeMemory } from './redis-memory.ts';

/** Age of a waiting job from which its queue is reported although it has a worker, which takes a job within a second. */
const SLOW_MS = 60_000;
/** Maximum refused credentials that are read. */
const MAX_REFUSALS = 100;
/** The queue that schedulers take. */
const SCHEDULER_QUEUE: QueueName = 'maintenance';
/** Maximum wait for MongoDB: the problems that Redis shows are reported without it. */
const STORE_TIMEOUT_MS = 1_000;

const CHANNEL_LABELS: Record<Channel, string> = {
  mqtt: 'MQTT',
  apns: 'APNs',
  fcm: 'FCM',
  'web-push': 'Web Push',
};

/** Facts about the installation that problems are found in. */
export interface HealthFacts {
  queues: readonly QueueState[];
  circuits: readonly OpenCircuit[];
  /** Undefined if MongoDB did not respond. */
  refusals: readonly RefusalView[] | undefined;
  /** Of the Redis of the queues: one server, or each primary of a cluster. Empty if it does not tell. */
  memory: readonly RedisMemory[];
  /** Names and accounts of the apps with open circuits. */
  apps: ReadonlyMap<string, { name: string; account: string }>;
}

/** A fault that delays deliveries, as operators are told it. */
export interface Problem {
  kind:
    | 'no-worker'
    | 'slow-queue'
    | 'redis-memory'
    | 'open-circuit'
    | 'refused-credential'
    | 'installation';
  queues?: readonly QueueName[];
  /** True if Redis takes no more jobs. */
  isFull?: true;
  /** The app that it concerns; absent if it concerns all. */
  app?: { id: string; name: string; account: string };
  channel?: Channel;
  /** Unix milliseconds; null if it is not told. */
  since: number | null;
  /** A sentence that says what is wrong. */
  text: string;
  /** A sentence that says what to do. */
  advice: string;
}

/** Stores that problems are read from. */
type HealthStore = Pick<Store, 'apps' | 'credentials' | 'suspensions'>;

/** Reads which apps' pushes may not be delivered, and the refused credentials of all others. */
export async function readRefusals(
  { credentials, suspensions }: Omit<HealthStore, 'apps'>,
  limit: number,
): Promise<RefusalView[]> {
  await suspensions.refresh();
  return credentials.listUnaccepted(limit, suspensions.filter());
}

/**
 * Reads the facts: the queues and circuits from the Redis of the queues, and the refused credentials. What concerns only
 * paused apps and suspended accounts is left out; it refreshes which these are.
 *
 * @param store undefined if it can't be reached
 * @throws if Redis fails
 */
export async function readHealth(
  redis: Redis,
  store: HealthStore | undefined,
): Promise<HealthFacts> {
  const withinTimeout = <T>(reading: Promise<T> | undefined) =>
    resultWithin(
      (reading ?? Promise.resolve(undefined)).catch(() => undefined),
      STORE_TIMEOUT_MS,
      undefined,
    );
  const [queues, reported, memory, refusals] = await Promise.all([
    readQueueStates(redis),
    readOpenCircuits(redis),
    // A server may forbid it.
    readMemory(redis).catch(() => []),
    withinTimeout(store && readRefusals(store, MAX_REFUSALS)),
  ]);
  const circuits = reported.filter(({ app }) => store?.suspensions.mayDeliver(app) ?? true);
  const ids = [...new Set(circuits.map(({ app }) => app))];
  const apps = ids.length === 0 ? [] : await withinTimeout(store?.apps.findOwners(ids));
  return {
    ...{ queues, circuits, memory, refusals },
    apps: new Map(apps?.map(({ _id, name, account }) => [_id, { name, account }])),
  };
}

/** Finds the problems in the facts, those of the whole installation first. Without any the list is empty. */
export function findProblems(facts: HealthFacts, now: number): Problem[] {
  return [
    ...findMemoryProblems(facts.memory),
    ...findQueueProblems(facts.queues, now),
    ...findOverflow(facts),
    ...(facts.refusals ?? []).map(describeRefusal),
    ...findCircuitProblems(facts),
  ];
}

/** Finds servers that are nearly full, or that evict jobs instead. */
function findMemoryProblems(servers: readonly RedisMemory[]): Problem[] {
  const [fullest] = servers.filter(isNearlyFull).toSorted((a, b) => usedShare(b) - usedShare(a));
  const evicting = servers.find(({ policy }) => policy !== 'noeviction');
  return [
    ...(fullest === undefined
      ? []
      : [
          {
            kind: 'redis-memory' as const,
            ...(usedShare(fullest) >= 1 && { isFull: true as const }),
            since: null,
            text: `Redis uses ${summarizeMemory(fullest)}.`,
            advice: MEMORY_ADVICE,
          },
        ]),
    ...(evicting === undefined
      ? []
      : [
          {
            kind: 'redis-memory' as const,
            since: null,
            text: `The maxmemory-policy of Redis is ${evicting.policy}.`,
            advice: 'Set it to noeviction, or Redis evicts jobs when its memory is full.',
          },
        ]),
  ];
}

/** Tells that the lists are full: the first apps may hide those of other accounts. */
function findOverflow({ circuits, refusals = [] }: HealthFacts): Problem[] {
  if (refusals.length < MAX_REFUSALS && circuits.length < MAX_OPEN_CIRCUITS) return [];
  const text =
    'At least 100 apps have a refused credential or an unavailable provider; not all of them are listed.';
  const advice = 'If yours is not listed, look at its credentials and its failed deliveries.';
  return [{ kind: 'installation', since: null, text, advice }];
}

/** Selects the problems that an operator of some accounts may see, without figures of others. */
export function selectProblems(
  problems: readonly Problem[],
  mayUseAccount: (account: string) => boolean,
): Problem[] {
  const ofAccounts = problems.filter(({ app }) => app !== undefined && mayUseAccount(app.account));
  const ofAll = problems.filter(({ kind }) => kind === 'installation');
  if (!problems.some(({ queues, isFull }) => queues !== undefined || isFull === true))
    return [...ofAll, ...ofAccounts];
  const text = 'Deliveries of the whole installation are delayed.';
  const advice = 'Nothing is lost. The operators of the installation see the cause.';
  return [{ kind: 'installation', since: null, text, advice }, ...ofAll, ...ofAccounts];
}

/** One problem for all queues of a kind: a frozen worker leaves several. */
function findQueueProblems(queues: readonly QueueState[], now: number): Problem[] {
  const waiting = queues.filter(({ oldestWaitingMs }) => (oldestWaitingMs ?? 0) > 0);
  const unserved = waiting.filter(({ hasWorker }) => !hasWorker);
  const slow = waiting.filter(
    ({ hasWorker, oldestWaitingMs }) => hasWorker && (oldestWaitingMs ?? 0) >= SLOW_MS,
  );
  const describe = (
    kind: Problem['kind'],
    found: readonly QueueState[],
    text: string,
    adviceFor: (processes: string) => string,
  ): Problem[] => {
    if (found.length === 0) return [];
    const names = found.map(({ name }) => name);
    const advice = adviceFor(describeProcesses(names));
    const oldestMs = Math.max(...found.map(({ oldestWaitingMs }) => oldestWaitingMs ?? 0));
    const since = Math.round(now - oldestMs);
    return [{ kind, queues: names, since, text: `${text}: ${names.join(', ')}.`, advice }];
  };
  return [
    ...describe(
      'no-worker',
      unserved,
      'Jobs wait and no worker takes them',
      () =>
        'Check that the delivery workers and the scheduler run and are not frozen, and the QUEUES of the workers.',
    ),
    ...describe(
      'slow-queue',
      slow.filter(({ active }) => active === 0),
      'Jobs wait and their worker takes none',
      (processes) => `Restart ${processes} that take them: they may hang.`,
    ),
    ...describe(
      'slow-queue',
      slow.filter(({ active }) => active > 0),
      'Jobs wait for more than a minute',
      (processes) => `Start more of ${processes}, or wait until the backlog is gone.`,
    ),
  ];
}

/** Names the processes that take the jobs of some queues. */
function describeProcesses(queues: readonly QueueName[]): string {
  if (!queues.includes(SCHEDULER_QUEUE)) return 'the delivery workers';
  return queues.length === 1 ? 'the schedulers' : 'the delivery workers and the schedulers';
}

function describeRefusal(refusal: RefusalView): Problem {
  const { app, appName: name, account, channel, environment, detail, refusedAt } = refusal;
  const of = environment === undefined ? '' : ` (${environment})`;
  return {
    kind: 'refused-credential',
    app: { id: app, name, account },
    channel,
    since: refusedAt.getTime(),
    text: `${CHANNEL_LABELS[channel]} refuses the credential${of} of the app ${name}: ${detail}.`,
    advice: 'Its deliveries wait until you set a credential that the provider accepts.',
  };
}

/** Leaves out the circuits of refused credentials, which are listed with their cause. */
function findCircuitProblems({ circuits, refusals = [], apps }: HealthFacts): Problem[] {
  const refused = new Set(refusals.map(({ app, channel }) => `${app} ${channel}`));
  return circuits
    .filter(({ app, channel }) => !refused.has(`${app} ${channel}`))
    .slice(0, MAX_OPEN_CIRCUITS)
    .map(({ app: id, channel, since, reason }) => {
      const { name = id, account = '' } = apps.get(id) ?? {};
      return {
        kind: 'open-circuit',
        app: { id, name, account },
        channel,
        since,
        text: `${CHANNEL_LABELS[channel]} is unavailable for the app ${name}: ${reason}.`,
        advice:
          'Its deliveries wait and are sent when it works again. Check the status of the provider, and the way to it.',
      };
    });
}
