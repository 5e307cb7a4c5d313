import { PROXY_WARNINGS } from '@carillon/core/proxy-warnings';
import { describeRedisUrl, parseRedisUrl } from '@carillon/core/redis-url';
import { CONTACT_HINT, chooseContact } from '@carillon/core/web-push-contact';
import { inspectRedis, readPrimary } from '@carillon/presence/inspect-redis';
import { diagnoseRedis, type RedisAddress } from '@carillon/presence/redis';
import { usedShare } from '@carillon/presence/redis-memory';
import type { RedisNode } from '@carillon/presence/redis-topology';
import { createReports } from '@carillon/reports/reports';
import type { Store } from '@carillon/store/store';
import type { MongoMember, MongoTopology } from '@carillon/store/topology';
import { describeError } from './admin-error.ts';
import { awaitAnswer, type Wait } from './await-answer.ts';
import { checkFcmUse } from './fcm-use.ts';
import {
  findProblems,
  type HealthFacts,
  type Problem,
  readHealth,
  readRefusals,
} from './health.ts';
import { listPendingApps, type PendingApp } from './queues.ts';
import { isNearlyFull, MEMORY_ADVICE, summarizeMemory } from './redis-memory.ts';

const MAX_CLOCK_DIFFERENCE_MS = 2_000;
/**
 * Maximum age of a due batch. Workers claim due batches within a second; an older batch waits for workers that are
 * missing or too few.
 */
const MAX_BACKLOG_AGE_MS = 60_000;
/** Maximum number of batches counted in each of the two collections that hold batches. */
const MAX_COUNTED = 1_000;
/** Maximum apps, or problems of one kind, that are listed. */
const MAX_LISTED = 5;
/** Age after which a warning that processes have not repeated is over. */
const PROXY_WARNING_AGE_MS = 3_600_000;
const USABLE_STATES = new Set(['PRIMARY', 'SECONDARY', 'ARBITER']);
/** Maximum lag of a secondary. An idle primary writes every 10 s, so a secondary seems to lag by that. */
const MAX_LAG_SECONDS = 30;
const GIB = 1_073_741_824;
/**
 * Minimum free share of a volume. On a large volume {@link MAX_REQUIRED_BYTES} is enough: MongoDB and its journal take
 * hours to grow by that.
 */
const MIN_FREE_SHARE = 0.05;
const MIN_FREE_BYTES = GIB;
const MAX_REQUIRED_BYTES = 10 * GIB;

/** Result of one health check. */
export interface Finding {
  check: string;
  ok: boolean;
  /** One line for an operator: the finding, or the reason why the check failed. */
  detail: string;
}

/** Runs a check; `run` returns the detail of a healthy finding and throws for an unhealthy one. */
export async function runCheck(
  check: string,
  run: () => Promise<string> | string,
): Promise<Finding> {
  try {
    return { check, ok: true, detail: await run() };
  } catch (error) {
    return { check, ok: false, detail: describeError(error) };
  }
}

/**
 * Checks what the console shows on top of its pages: workers, circuits of providers, refused credentials. What can't be
 * read is left out; other checks name the server.
 */
export async function checkHealth(
  redis: RedisAddress | undefined,
  store: Store | undefined,
): Promise<Finding[]> {
  const facts = await fetchHealth(redis, store).catch(() => undefined);
  const refusals =
    facts?.refusals ??
    (await (store && readRefusals(store, MAX_LISTED + 1).catch(() => undefined)));
  const none = { queues: [], circuits: [], memory: [], apps: new Map() };
  const all: HealthFacts = { ...none, ...facts, refusals };
  const problems = findProblems(all, Date.now());
  const check = (name: string, healthy: string, ...kinds: Problem['kind'][]) =>
    runCheck(name, () => {
      const found = problems.filter(({ kind }) => kinds.includes(kind));
      if (found.length === 0) return healthy;
      const more = found.length > MAX_LISTED ? ' And more.' : '';
      throw new Error(`${found.slice(0, MAX_LISTED).map(describeProblem).join(' ')}${more}`);
    });
  return Promise.all([
    ...(facts === undefined
      ? []
      : [
          check('workers', 'each queue with waiting jobs has a worker', 'no-worker', 'slow-queue'),
          check('providers', 'none is unavailable for an app', 'open-circuit'),
        ]),
    ...(refusals === undefined
      ? []
      : [check('refused credentials', 'none in the last hour', 'refused-credential')]),
  ]);
}

async function fetchHealth(
  address: RedisAddress | undefined,
  store: Store | undefined,
): Promise<HealthFacts | undefined> {
  if (address === undefined) return undefined;
  const { answer } = await askRedis(address, (wait) =>
    diagnoseRedis(address, (redis) => readHealth(redis, store), wait),
  );
  return answer;
}

/** Asks a Redis, and tells a slow one from one that can't be reached. */
function askRedis<T>(address: RedisAddress, ask: (wait: Wait) => Promise<T>) {
  const { hosts } = parseRedisUrl(address.url);
  return awaitAnswer(`Redis at ${describeRedisUrl(address.url)}`, hosts, ask);
}

function describeProblem({ text, app, since, advice }: Problem): string {
  const time = since === null ? '' : ` Since ${new Date(since).toISOString()}.`;
  return `${text}${time} ${advice}${app === undefined ? '' : ` (app ${app.id})`}`;
}

/**
 * Checks MongoDB: version, servers, schema, indexes, clock, disk space, the backlog of batches, apps' use of FCM, contacts for push services, and proxies that the services' settings don't name.
 *
 * @param host shown as the server's address
 * @param webPushContact the deployment's contact for push services
 */
export function checkDatabase(
  store: Store,
  host: string,
  webPushContact: string | undefined,
): Promise<Finding[]> {
  return Promise.all([
    runCheck('mongodb', async () => {
      const { answer, slow } = await awaitAnswer(`MongoDB at ${host}`, [], () => store.version());
      return `${slow}${answer} at ${host}`;
    }),
    runCheck('mongodb servers', async () => describeMongodb(await store.topology())),
    runCheck('mongodb schema', () => checkSchema(store)),
    runCheck('mongodb indexes', () => checkIndexes(store)),
    runCheck('clock', () => checkClock(store)),
    runCheck('mongodb disk space', () => checkDiskSpace(store)),
    runCheck('backlog', () => checkBacklog(store)),
    runCheck('fcm for android', () => checkFcmUse(store)),
    runCheck('web push contact', () => checkContacts(store, webPushContact)),
    runCheck('client addresses', () => checkClientAddresses(store)),
  ]);
}

/** Checks Redis: its servers, that none evicts keys, and that they replace one that fails. */
export const checkRedis = (address: RedisAddress): Promise<Finding[]> =>
  checkRedisServers('redis', address);

/** Checks the Redis for presence. */
export const checkPresenceRedis = (address: RedisAddress): Promise<Finding[]> =>
  checkRedisServers('presence redis', address);

/** Checks the servers behind an address; the first finding shows whether they respond. */
async function checkRedisServers(name: string, address: RedisAddress): Promise<Finding[]> {
  const inspected = (async () => {
    const { answer, slow } = await askRedis(address, (wait) => readPrimary(address, wait));
    return { ...(await inspectRedis(address, answer)), slow };
  })();
  const servers = await runCheck(name, async () => {
    const { kind, summary, nodes, slow } = await inspected;
    const products = new Set(nodes.map(({ server, version }) => `${server} ${version}`));
    const listed = `${slow}${[...products].sort().join(', ')}`;
    return kind === 'server'
      ? `${listed} at ${describeRedisUrl(address.url)}`
      : `${listed}: ${summary}`;
  });
  if (!servers.ok) return [servers];
  const { kind, nodes, failoverFaults } = await inspected;
  const memory = await runCheck(`${name} memory`, () => describeMemory(nodes));
  const policy = await runCheck(`${name} maxmemory-policy`, () => describePolicies(nodes));
  if (kind === 'server') return [servers, memory, policy];
  const failover = await runCheck(`${name} failover`, () => {
    if (failoverFaults.length === 0) return 'a primary that fails is replaced within ten seconds';
    throw new Error(failoverFaults.join('; '));
  });
  return [servers, memory, policy, failover];
}

/** Describes the memory of the fullest server. @throws when it is nearly full */
function describeMemory(nodes: readonly RedisNode[]): string {
  const [fullest] = nodes.toSorted((a, b) => usedShare(b.memory) - usedShare(a.memory));
  if (fullest === undefined || fullest.memory.maxBytes === 0) return 'no maxmemory';
  const summary = summarizeMemory(fullest.memory);
  if (!isNearlyFull(fullest.memory)) return summary;
  const at = fullest.address === undefined ? '' : ` at ${fullest.address}`;
  throw new Error(`${summary}${at}. ${MEMORY_ADVICE}`);
}

function describePolicies(nodes: readonly RedisNode[]): string {
  const others = nodes.filter(({ memory }) => memory.policy !== 'noeviction');
  if (others.length === 0) return 'noeviction';
  const listed = others.map(({ address, memory: { policy } }) =>
    address === undefined ? policy : `${policy} at ${address}`,
  );
  throw new Error(
    `${listed.join(', ')}; it must be noeviction, or Redis evicts jobs when its memory is full`,
  );
}

/**
 * Describes the free space of a volume.
 *
 * @throws when less than 5 % is free (at least 1 GiB and at most 10 GiB are required)
 */
export function describeDiskSpace({ free, total }: { free: number; total: number }): string {
  const requiredBytes = Math.min(
    Math.max(total * MIN_FREE_SHARE, MIN_FREE_BYTES),
    MAX_REQUIRED_BYTES,
  );
  const summary = `${formatGibibytes(free)} of ${formatGibibytes(total)} free`;
  if (free >= requiredBytes) return summary;
  throw new Error(
    `${summary}; free at least ${formatGibibytes(requiredBytes)}, or writes will soon fail`,
  );
}

function formatGibibytes(bytes: number): string {
  return `${(bytes / GIB).toFixed(1)} GiB`;
}

/** Names the servers of MongoDB. @throws when this release does not support them */
export function nameMongodb(topology: MongoTopology): string {
  if (topology.kind === 'server') return 'one server, which nothing replaces when it fails';
  if (topology.kind === 'mongos') {
    throw new Error('a mongos; Carillon supports one replica set (docs/run/scaling.md)');
  }
  const { name, size } = topology;
  if (size === 1) return `replica set ${name} of one member, which nothing replaces when it fails`;
  return `replica set ${name} of ${size} members`;
}

/**
 * Describes the servers of MongoDB.
 *
 * @throws when a member is not usable or far behind, or when the loss of one member suffices to refuse pushes
 */
export function describeMongodb(topology: MongoTopology): string {
  const summary = nameMongodb(topology);
  if (topology.kind !== 'replica set' || topology.size === 1) return summary;
  const { members } = topology;
  if (members === undefined) {
    return `${summary}; their states need the role clusterMonitor`;
  }
  const faults = members.flatMap(findFaults);
  const withData = members.filter(({ state }) => state !== 'ARBITER').length;
  const majority = Math.floor(members.length / 2) + 1;
  if (withData <= majority) {
    faults.push(
      `only ${withData} of ${members.length} members hold data: while one of these is unavailable, no push is accepted`,
    );
  }
  if (faults.length > 0) throw new Error(`${summary}: ${faults.join('; ')}`);
  const lag = Math.max(...members.map(({ lagSeconds = 0 }) => lagSeconds));
  return `${summary}, all up, at most ${Math.round(lag)} s behind the primary`;
}

function findFaults({ name, state, lagSeconds = 0 }: MongoMember): string[] {
  if (!USABLE_STATES.has(state)) return [`${name} is ${state}`];
  return lagSeconds > MAX_LAG_SECONDS ? [`${name} is ${Math.round(lagSeconds)} s behind`] : [];
}

async function checkSchema({ schema }: Pick<Store, 'schema'>): Promise<string> {
  const { version, latest, steps } = await schema.status();
  if (steps.length === 0) return `version ${version}`;
  throw new Error(`version ${version}, and this release has ${latest}; run carillon migrate`);
}

async function checkIndexes({ missingIndexes }: Pick<Store, 'missingIndexes'>): Promise<string> {
  const missing = await missingIndexes();
  if (missing.length === 0) return 'complete';
  throw new Error(`missing: ${missing.join(', ')}; run carillon migrate`);
}

async function checkDiskSpace({ diskSpace }: Pick<Store, 'diskSpace'>): Promise<string> {
  const space = await diskSpace();
  return space === undefined ? 'not reported by this server' : describeDiskSpace(space);
}

function checkClock({ clock }: Pick<Store, 'clock'>): string {
  const offsetMs = Math.round(Date.now() - clock.now());
  const differenceMs = Math.abs(offsetMs);
  if (differenceMs < MAX_CLOCK_DIFFERENCE_MS) return `${differenceMs} ms from MongoDB's`;
  throw new Error(
    `${differenceMs} ms ${offsetMs > 0 ? 'ahead of' : 'behind'} MongoDB's; check time synchronisation`,
  );
}

async function checkBacklog(
  store: Pick<Store, 'db' | 'apps' | 'batchTable' | 'suspensions' | 'clock'>,
): Promise<string> {
  const { batchTable, suspensions, clock } = store;
  await suspensions.refresh();
  const { due, oldest } = await batchTable.measureBacklog(MAX_COUNTED);
  // Without the app the finding is worth as much as it was.
  const largest = await findLargest(store).catch(() => undefined);
  // Pending are also the batches that workers have, which are not due.
  if (oldest === undefined) return `no batch is due${largest?.paused ? describeApp(largest) : ''}`;
  const oldestAgeMs = Math.max(0, clock.now() - oldest.getTime());
  const count = due >= MAX_COUNTED ? `${due} or more` : due;
  const summary = `${count} ${due === 1 ? 'batch' : 'batches'} due, the oldest for ${Math.round(oldestAgeMs / 1_000)} s${largest === undefined ? '' : describeApp(largest)}`;
  if (oldestAgeMs < MAX_BACKLOG_AGE_MS) return summary;
  throw new Error(
    `${summary}; check that the scheduler and the delivery workers run, and read their logs`,
  );
}

/** Finds the app with the most pending batches, paused apps included. */
async function findLargest(
  store: Pick<Store, 'db' | 'apps' | 'suspensions' | 'clock'>,
): Promise<PendingApp | undefined> {
  const { appBacklog } = createReports(store);
  return (await listPendingApps({ ...store, appBacklog }, async () => [], 1))[0];
}

function describeApp({ app, name, pending, isAtLeast, paused }: PendingApp): string {
  const count = isAtLeast ? `${pending} or more` : pending;
  return `; the largest: app ${app} (${name}${paused ? ', paused' : ''}) with ${count} pending`;
}

/**
 * Checks that push services can reach the sender of each app.
 *
 * @throws when an app without a contact has a browser of Apple's, whose push service refuses its pushes
 */
async function checkContacts(
  { credentials, devices }: Pick<Store, 'credentials' | 'devices'>,
  ofDeployment: string | undefined,
): Promise<string> {
  if (ofDeployment !== undefined) return `${ofDeployment} for apps without one of their own`;
  const lacking: string[] = [];
  for await (const { app, about } of credentials.iterateOf('web-push')) {
    if (chooseContact(about.contact, undefined) === undefined) lacking.push(app);
  }
  if (lacking.length === 0) return 'every app has one';
  const affected = await devices.filterWithAppleBrowser(lacking, MAX_LISTED + 1);
  const summary = `${lacking.length} ${lacking.length === 1 ? 'app has' : 'apps have'} none`;
  if (affected.length === 0)
    return `${summary}, so Apple would refuse pushes to Safari: ${CONTACT_HINT}`;
  const listed = affected.slice(0, MAX_LISTED).join(', ');
  const more = affected.length > MAX_LISTED ? ' and more' : '';
  throw new Error(
    `${summary}, and Apple refuses the pushes to Safari of ${listed}${more}: ${CONTACT_HINT}`,
  );
}

/** Reads the warnings that the API and the gateways have recorded: only they see the connections. */
async function checkClientAddresses({
  proxyWarnings,
}: Pick<Store, 'proxyWarnings'>): Promise<string> {
  const warnings = await proxyWarnings.listRecent(PROXY_WARNING_AGE_MS);
  if (warnings.length === 0) return 'no sign of a proxy that the settings do not name';
  const texts = warnings.map(
    ({ _id, at }) => `${PROXY_WARNINGS[_id] ?? _id} (last at ${at.toISOString()})`,
  );
  throw new Error(texts.join('; '));
}
