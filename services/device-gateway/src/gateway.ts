import { type DeviceAuthKeys, isDeviceAuth } from '@carillon/core/device-auth';
import {
  createGatewayLink,
  type GatewayEvents,
  type GatewayLink,
} from '@carillon/presence/gateway-link';
import type { Producers } from '@carillon/queue/producers';
import type { Logger } from '@carillon/runtime/logger';
import type { Metrics } from '@carillon/runtime/metrics';
import { rowId } from '@carillon/store/inbox';
import type { Store } from '@carillon/store/store';
import { createAddressLimits, NO_ADDRESS_LIMITS } from './address-limits.ts';
import { admit } from './admit.ts';
import { createConnections } from './connections.ts';
import { createCounts } from './counts.ts';
import { createDelivering } from './deliver.ts';
import { createDraining } from './drain.ts';
import { type Addresses, type Listening, listen } from './listen.ts';
import { createPatience } from './patience.ts';
import { createReceipts } from './receipts.ts';
import { sayGoodbye } from './say-goodbye.ts';
import { type LinkDeps, serveLink } from './serve-link.ts';
import { createSignsOfLife } from './signs-of-life.ts';
import { createStrangers } from './strangers.ts';
import { startSweep } from './sweep.ts';

/** Recipients that may wait here to be written; above it workers are told to hold back. */
const CAPACITY = 20_000;

export interface GatewaySettings {
  store: Pick<Store, 'inbox' | 'pushes' | 'devices' | 'receipts' | 'clock'>;
  producers: Pick<Producers, 'presence' | 'finish'>;
  metrics: Metrics;
  log: Pick<Logger, 'info' | 'warn'>;
  presenceUrl: string;
  listen: Addresses;
  /** Each link begins with a header of the PROXY protocol, version 2. */
  hasProxyHeader: boolean;
  /** Links that this process holds at most. */
  maxConnections: number;
  authKeys: DeviceAuthKeys;
  hasAddressLimits: boolean;
  /** Over how many seconds links are closed at the end. */
  goodbyeSeconds: number;
}

/** A running gateway. */
export interface Gateway {
  /** Where it listens; 0 for what isn't offered. */
  ports: Listening['ports'];
  /** Whether workers can see it; devices are served from MongoDB all the same. */
  isAnnounced(): boolean;
  /** Closes all links, spread over time; receipts are written, places removed. */
  stop(): Promise<void>;
}

/** Puts the parts together and listens. */
export async function startGateway(settings: GatewaySettings): Promise<Gateway> {
  // The parts call the link and the link calls the parts; nothing is called before both are there.
  const parts = createParts(settings, () => link);
  const link = await createGatewayLink(settings.presenceUrl, eventsFor(parts));
  const limits = settings.hasAddressLimits ? createAddressLimits() : NO_ADDRESS_LIMITS;
  const strangers = createStrangers(limits);
  const linkDeps = linkDepsFor(settings, parts, { limits, strangers });
  const listening: Listening = await listen(settings.listen, {
    limits,
    strangers,
    isFull: () => {
      const links = parts.connections.size() + strangers.count() + listening.waiting();
      return links >= settings.maxConnections;
    },
    hasProxyHeader: settings.hasProxyHeader,
    turnedAway: parts.counts.connected,
    serve: (stranger) => serveLink(linkDeps, stranger),
    certificate(failure) {
      if (failure === undefined) settings.log.info('a new TLS certificate is in force');
      else settings.log.warn({ err: failure }, 'the TLS files can not be used');
    },
  });

  async function stop(): Promise<void> {
    listening.stop();
    strangers.stop();
    await sayGoodbye(parts.connections, settings.goodbyeSeconds);
    parts.patience.stop();
    parts.sweep.stop();
    parts.counts.stop();
    limits.stop();
    await Promise.all([parts.receipts.flush(), parts.life.stop()]);
    await link.close();
  }

  let stopped: Promise<void> | undefined;
  return {
    ports: listening.ports,
    isAnnounced: link.isHeld,
    stop() {
      stopped ??= stop();
      return stopped;
    },
  };
}

function linkDepsFor(
  { store, authKeys }: GatewaySettings,
  { connections, draining, counts }: Parts,
  guards: Pick<LinkDeps, 'limits' | 'strangers'>,
): LinkDeps {
  return {
    ...guards,
    connections,
    admit: (frame) =>
      admit(frame, {
        isDeviceAuth: (token, auth) => isDeviceAuth(authKeys, token, auth),
        findDevice: store.devices.findForConnect,
      }),
    look: draining.look,
    connected: counts.connected,
  };
}

type Parts = ReturnType<typeof createParts>;

function createParts(settings: GatewaySettings, link: () => GatewayLink) {
  const { store, producers } = settings;
  const counts = createCounts(settings.metrics);
  const life = createSignsOfLife(producers.presence, store.clock.now);
  const receipts = createReceipts({ record: store.receipts.record, finish: producers.finish });
  const answer: GatewayLink['answer'] = (to, what) => {
    counts.answered(what);
    link().answer(to, what);
  };
  const draining = createDraining({
    listRowsOf: store.inbox.listRowsOf,
    removeRow: (push, row) => store.inbox.remove(push, [row]),
    readForSending: store.pushes.readForSending,
    isSendable: store.pushes.isSendable,
    async exists(token) {
      const device = await store.devices.findForConnect(token);
      return device !== undefined && device.deletedAt === undefined;
    },
    record: receipts.record,
    close: (connection, reason) => connections.close(connection, reason),
    sent: () => counts.published('inbox'),
  });
  const connections = createConnections({
    announce: (place) => link().announce(place),
    withdraw: (place) => link().withdraw(place),
    answer,
    drain: draining.drain,
    record: receipts.record,
    sawDevice: life.saw,
    acknowledged: counts.acknowledged,
    closed: counts.closed,
  });
  counts.watch(connections);
  const sweep = startSweep({ connections, look: draining.look });
  const patience = createPatience(answer);
  const delivering = createDelivering({
    find: connections.find,
    answer,
    await: patience.await,
    isStrained: sweep.isStrained,
    redisNow: () => link().now(),
    mongoNow: store.clock.now,
    rowId,
    drain: draining.drain,
    published: () => counts.published('live'),
  });
  return { counts, life, receipts, draining, connections, sweep, patience, delivering };
}

/** What comes from Redis, and whom it concerns. */
function eventsFor({ connections, draining, delivering, sweep }: Parts): GatewayEvents {
  function drain(token: string): void {
    const connection = connections.find(token);
    if (connection !== undefined) draining.drain(connection);
  }
  return {
    deliver: delivering.deliver,
    drain,
    kick({ token, connection: id }) {
      const connection = connections.find(token);
      if (connection?.id === id) connections.close(connection, 'taken-over');
    },
    announced: ({ token }) => drain(token),
    *links() {
      for (const { token, id } of connections.all()) yield { token, connection: id };
    },
    isHere({ token, connection: id }) {
      const connection = connections.find(token);
      return connection?.id === id && connection.isOpen();
    },
    credit: () => (sweep.isStrained() ? 0 : Math.max(0, CAPACITY - delivering.unwritten())),
  };
}
