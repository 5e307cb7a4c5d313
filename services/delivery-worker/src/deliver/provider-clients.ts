import {
  type ProviderChannelName,
  type ProviderSecret,
  providerSecret,
} from '@carillon/core/channels';
import {
  type Circuit,
  type CircuitState,
  createCircuit,
  MAX_OPEN_MS,
} from '@carillon/core/circuit';
import { type SealingKeys, unseal } from '@carillon/core/sealing';
import { REFUSED_ROUND_MS } from '@carillon/core/troubled-recipients';
import type { OpenCircuit } from '@carillon/presence/open-circuits';
import type { CredentialDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { LRUCache } from 'lru-cache';
import type { Address, LoadProviderChannel, ProviderChannel, ProviderClient } from './provider.ts';
import { type AdjustableSemaphore, createSemaphore, type Semaphore } from './semaphore.ts';

/** Maximum age of a credential when it is used. */
const MAX_AGE_MS = 3_000;
const CLEANUP_INTERVAL_MS = 60_000;
/** Idle time after which an app's clients are closed. */
const MAX_IDLE_MS = 600_000;
/** Idle time after which an open circuit is not listed: pushes that wait for it would have probed it. */
const UNUSED_MS = 2 * MAX_OPEN_MS;
/** Maximum large batches of one app in progress at once; more would only take memory. */
const MAX_LARGE_BATCHES_PER_APP = 2;
/** Maximum batches of one app that this process has claimed. */
const MAX_IN_FLIGHT_PER_APP = 200;

/** An app's clients of one channel, held until released. */
export interface ProviderClients {
  /** Finds the client for an address; undefined when none of the app's credentials is for it. */
  findClient(address: Address): CredentialClient | undefined;
  /** Checks whether the app has a credential of the channel. */
  hasCredentials(): boolean;
  /** Reads the app's credentials again. */
  refresh(): Promise<void>;
  /** Checks whether the process holds so many batches of this app that more would delay other apps. */
  isAtCapacity(): boolean;
  /** Limits the large batches in progress. */
  bulkhead: Semaphore;
  release(): void;
}

interface AppEntry {
  readAt: number;
  usedAt: number;
  inFlight: number;
  loading: Promise<void> | undefined;
  current: OpenCredential[];
  /** Replaced credentials, closed when no batch holds the app's clients. */
  retired: OpenCredential[];
  bulkhead: Semaphore;
}

/** The clients of all apps of one channel. */
export type ProviderClientPool = ReturnType<typeof createProviderClientPool>;

/**
 * Creates a pool with a client for each credential in use. A credential is read again every few seconds: a changed one
 * gets a new client with closed circuits, and the old client is closed when its last batch is done.
 */
export function createProviderClientPool(options: ProviderClientOptions) {
  const { name, credentials, loadChannel, onError } = options;
  let channel: ProviderChannel | undefined;
  const apps = new Map<string, AppEntry>();
  const timer = setInterval(closeIdle, CLEANUP_INTERVAL_MS);
  timer.unref();

  function findOrCreateEntry(app: string): AppEntry {
    const existing = apps.get(app);
    if (existing !== undefined) return existing;
    const entry = createEntry();
    apps.set(app, entry);
    return entry;
  }

  /** Never joins a query that has begun: it may have read before the owner's change. */
  async function reload(app: string, entry: AppEntry): Promise<void> {
    await entry.loading?.catch(() => undefined);
    entry.loading ??= loadNow(app, entry).finally(() => {
      entry.loading = undefined;
    });
    await entry.loading;
  }

  async function loadNow(app: string, entry: AppEntry): Promise<void> {
    const documents = await credentials.listForChannel(app, name);
    const current: OpenCredential[] = [];
    for (const document of documents) {
      channel ??= await loadChannel();
      const open = entry.current.find((one) => one.document.revision === document.revision);
      open?.onRead(document);
      current.push(open ?? openCredential(options, channel, document));
    }
    entry.retired.push(...entry.current.filter((credential) => !current.includes(credential)));
    entry.current = current;
    entry.readAt = performance.now();
    closeRetired(entry, onError);
  }

  function closeIdle(): void {
    for (const [app, entry] of apps) {
      if (entry.inFlight > 0 || performance.now() - entry.usedAt < MAX_IDLE_MS) continue;
      apps.delete(app);
      for (const credential of entry.current) credential.close().catch(onError);
    }
  }

  return {
    /** Resolves with an app's clients. */
    async acquire(app: string): Promise<ProviderClients> {
      const entry = findOrCreateEntry(app);
      entry.inFlight += 1;
      const release = () => {
        entry.inFlight -= 1;
        entry.usedAt = performance.now();
        closeRetired(entry, onError);
      };
      try {
        if (isStale(entry)) await reload(app, entry);
      } catch (error) {
        release();
        throw error;
      }
      return createProviderClients(entry, () => reload(app, entry), release);
    },
    /** Counts the circuits of the open clients by state. */
    countCircuits: (): Record<CircuitState, number> => countCircuits(apps.values()),
    /** Lists the apps for which a circuit is open, each once, without those that no push waits for. */
    *listOpenCircuits(): Generator<OpenCircuit> {
      for (const [app, { current, inFlight, usedAt }] of apps) {
        const isUsed = inFlight > 0 || performance.now() - usedAt < UNUSED_MS;
        const open = current.flatMap((credential) => credential.findOpenCircuit(isUsed) ?? []);
        const [first] = open.toSorted((a, b) => a.since - b.since);
        if (first !== undefined) yield { app, channel: name, ...first };
      }
    },
    /** Closes all clients; requests in flight end first. */
    async close(): Promise<void> {
      clearInterval(timer);
      const open = [...apps.values()].flatMap((entry) => [...entry.current, ...entry.retired]);
      apps.clear();
      await Promise.allSettled(open.map((credential) => credential.close()));
    },
  };
}

function createProviderClients(
  entry: AppEntry,
  refresh: () => Promise<void>,
  release: () => void,
): ProviderClients {
  return {
    findClient: (address) => findByEnvironment(entry.current, address),
    hasCredentials: () => entry.current.length > 0,
    refresh,
    isAtCapacity: () => entry.inFlight > MAX_IN_FLIGHT_PER_APP,
    bulkhead: entry.bulkhead,
    release,
  };
}

function countCircuits(entries: Iterable<AppEntry>): Record<CircuitState, number> {
  const counts = { closed: 0, open: 0, 'half-open': 0 };
  for (const { current } of entries)
    for (const credential of current)
      for (const state of credential.circuitStates()) counts[state] += 1;
  return counts;
}

/**
 * Checks whether the credentials must be read again. After a refusal or without a credential the owner may just have
 * corrected it: batches that are retried then must not use the old client, and new pushes must not fail.
 */
function isStale({ readAt, current }: AppEntry): boolean {
  const isHealthy = current.length > 0 && !current.some((credential) => credential.isSuspect());
  return !isHealthy || performance.now() - readAt > MAX_AGE_MS;
}

function closeRetired(entry: AppEntry, onError: (error: unknown) => void): void {
  if (entry.inFlight > 0) return;
  for (const credential of entry.retired.splice(0)) credential.close().catch(onError);
}

function createEntry(): AppEntry {
  return {
    readAt: Number.NEGATIVE_INFINITY,
    usedAt: 0,
    inFlight: 0,
    loading: undefined,
    current: [],
    retired: [],
    bulkhead: createSemaphore(MAX_LARGE_BATCHES_PER_APP),
  };
}

/** Finds the credential of the address's own environment, else the one for both. */
function findByEnvironment(
  current: readonly OpenCredential[],
  address: Address,
): CredentialClient | undefined {
  const environment = address.channel === 'apns' ? address.environment : undefined;
  const exact = current.find(({ document }) => document.environment === environment);
  return (exact ?? current.find(({ document }) => document.environment === undefined))
    ?.credentialClient;
}

/** One account at one provider host, with a circuit and a window of its own. */
export interface Upstream {
  /** Requests in flight: one while the circuit is open, then one more with each answer. */
  window: AdjustableSemaphore;
  circuit: Circuit;
  /** The last error that counted for the circuit. */
  lastError: string;
  /** Its server is of a provider or the operator; others may have been chosen by a device. */
  isKnown: boolean;
}

/** A credential in use: its client and its upstreams. */
export interface CredentialClient {
  client: ProviderClient;
  upstreamOf(address: Address): Upstream;
  /** Records for operators that the provider refuses the credential. */
  onRefused(detail: string): void;
  /** Records that the provider accepts the credential, unless other recipients wait because it was refused. */
  onAccepted(): void;
}

/**
 * Maximum upstreams of a credential, and of unknown ones. Web Push endpoints come from devices, and a vendor's domain has any
 * number of host names. The circuit of a forgotten one begins closed.
 */
const MAX_UPSTREAMS = 1_000;

/** Settings of a channel's clients. */
export interface ProviderClientOptions {
  name: ProviderChannelName;
  loadChannel: LoadProviderChannel;
  keys: SealingKeys;
  credentials: Store['credentials'];
  onError(error: unknown): void;
}

/** An open client of one revision of a credential. */
interface OpenCredential {
  document: CredentialDocument;
  credentialClient: CredentialClient;
  /** Takes the mark of a refusal that another worker may have made. */
  onRead(document: CredentialDocument): void;
  /** Checks whether the provider may refuse it: one of its circuits is open, or a recipient waits after a refusal. */
  isSuspect(): boolean;
  /** Returns the state of the circuit of each upstream but the unknown ones. */
  circuitStates(): CircuitState[];
  /**
   * Finds the circuit that has been open for longest, without the unknown ones.
   *
   * @param isUsed false leaves out those whose open period is over: no push waits for a probe
   */
  findOpenCircuit(isUsed: boolean): Pick<OpenCircuit, 'since' | 'reason'> | undefined;
  close(): Promise<void>;
}

/** Opens the client of a credential. @throws Error when its secret can't be unsealed or read */
function openCredential(
  { keys, credentials, onError }: Pick<ProviderClientOptions, 'keys' | 'credentials' | 'onError'>,
  channel: ProviderChannel,
  document: CredentialDocument,
): OpenCredential {
  const client = channel.connect(decryptSecret(keys, document));
  const upstreams = new LRUCache<string, Upstream>({ max: MAX_UPSTREAMS });
  // Apart: devices can name any number of them, and their failures are no concern of the operator's or of the credential.
  const unknownUpstreams = new LRUCache<string, Upstream>({ max: MAX_UPSTREAMS });
  const { _id, revision } = document;
  const circuits = () => [...upstreams.values()].map(({ circuit }) => circuit);
  /** Time until which the mark of a refusal stays, by the monotonic clock; undefined if there is none. */
  let markedUntil: number | undefined;
  function onRead({ refused }: CredentialDocument): void {
    if (refused !== undefined) markedUntil ??= performance.now();
  }
  onRead(document);

  /** Another process may have marked it since: then this one asks again a round later. */
  async function clearMark(): Promise<void> {
    markedUntil = performance.now() + REFUSED_ROUND_MS;
    if (await credentials.clearRefusal(_id, revision)) markedUntil = undefined;
  }

  const credentialClient: CredentialClient = {
    client,
    upstreamOf(address) {
      const key = client.upstreamKeyOf(address);
      const isKnown = client.isKnown?.(address) ?? true;
      const cache = isKnown ? upstreams : unknownUpstreams;
      const existing = cache.get(key);
      if (existing !== undefined) return existing;
      const upstream = {
        window: createSemaphore(channel.window),
        circuit: createCircuit(() => performance.now(), Math.random),
        lastError: '',
        isKnown,
      };
      cache.set(key, upstream);
      return upstream;
    },
    onRefused(detail) {
      markedUntil = performance.now() + REFUSED_ROUND_MS;
      credentials.recordRefusal(_id, revision, detail, REFUSED_ROUND_MS).catch(onError);
    },
    onAccepted() {
      if (markedUntil === undefined || performance.now() < markedUntil) return;
      // A single one is no sign that the credential is the cause.
      const refused = circuits().reduce((sum, circuit) => sum + circuit.countRefused(), 0);
      if (refused <= 1) clearMark().catch(onError);
    },
  };
  const isSuspect = () => circuits().some((circuit) => circuit.isOpen() || circuit.hasRefused());
  const circuitStates = () => circuits().map((circuit) => circuit.state());
  const findOpenCircuit = (isUsed: boolean) => findOldestOpen(upstreams.values(), isUsed);
  const close = () => client.close();
  return {
    ...{ document, credentialClient, onRead, isSuspect, circuitStates, findOpenCircuit, close },
  };
}

function findOldestOpen(
  upstreams: Iterable<Upstream>,
  isUsed: boolean,
): Pick<OpenCircuit, 'since' | 'reason'> | undefined {
  let oldest: Pick<OpenCircuit, 'since' | 'reason'> | undefined;
  for (const { circuit, lastError } of upstreams) {
    const openedAt = circuit.openedAt();
    if (openedAt === undefined || !(isUsed || circuit.state() === 'open')) continue;
    const since = Math.round(performance.timeOrigin + openedAt);
    if (oldest === undefined || since < oldest.since) oldest = { since, reason: lastError };
  }
  return oldest;
}

function decryptSecret(keys: SealingKeys, { _id, secret }: CredentialDocument): ProviderSecret {
  return providerSecret.parse(JSON.parse(unseal(keys, _id, secret)));
}
