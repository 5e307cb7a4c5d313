import { type DeviceAuthKeys, isDeviceAuth } from '@carillon/core/device-auth';
import {
  createGatewayLink,
  type GatewayEvents,
  type GatewayLink,
} from '@carillon/presence/gateway-link';
import type { Producers } from '@carillon/queue/producers';
import type { Listen } from '@carillon/runtime/env';
import type { Metrics } from '@carillon/runtime/metrics';
import { rowId } from '@carillon/store/inbox';
import type { Store } from '@carillon/store/store';
import { createAddressLimits, NO_ADDRESS_LIMITS } from './address-limits.ts';
import { admit } from './admit.ts';
import { createConnections } from './connections.ts';
import { createCounts } from './counts.ts';
import { createDelivering } from './deliver.ts';
import { createDraining } from './drain.ts';
import { createPatience } from './patience.ts';
import { createReceipts } from './receipts.ts';
import { sayGoodbye } from './say-goodbye.ts';
import { type LinkDeps, type Stranger, serveLink } from './serve-link.ts';
import { listenTcp } from './server.ts';
import { createSignsOfLife } from './signs-of-life.ts';
import { startSweep } from './sweep.ts';

/** Recipients that may wait here to be written; above it workers are told to hold back. */
const CAPACITY = 20_000;
const SILENCE_EVERY_MS = 50;

export interface GatewaySettings {
  store: Pick<Store, 'inbox' | 'pushes' | 'devices' | 'receipts' | 'clock'>;
  producers: Pick<Producers, 'presence' | 'finish'>;
  metrics: Metrics;
  presenceUrl: string;
  listen: Listen;
  authKeys: DeviceAuthKeys;
  hasAddressLimits: boolean;
  /** Over how many seconds links are closed at the end. */
  goodbyeSeconds: number;
}

/** A running gateway. */
export interface Gateway {
  port: number;
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
  const { connections, draining, counts } = parts;

  const limits = settings.hasAddressLimits ? createAddressLimits() : NO_ADDRESS_LIMITS;
  const silence = setInterval(parts.patience.answerSilent, SILENCE_EVERY_MS);
  const linkDeps: LinkDeps = {
    connections,
    limits,
    admit: (frame) =>
      admit(frame, {
        isDeviceAuth: (token, auth) => isDeviceAuth(settings.authKeys, token, auth),
        findDevice: settings.store.devices.findForConnect,
      }),
    look: draining.look,
    connected: counts.connected,
  };
  const server = await listenTcp(settings.listen, limits, (stream, address) =>
    serveLink(linkDeps, parts.strangers, stream, address),
  );

  async function stop(): Promise<void> {
    server.stop();
    for (const { stream } of parts.strangers) stream.destroy();
    await sayGoodbye(connections, settings.goodbyeSeconds);
    clearInterval(silence);
    parts.sweep.stop();
    limits.stop();
    await Promise.all([parts.receipts.flush(), parts.life.stop()]);
    await link.close();
  }

  let stopped: Promise<void> | undefined;
  return {
    port: server.port,
    isAnnounced: link.isHeld,
    stop() {
      stopped ??= stop();
      return stopped;
    },
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
    listRows: store.inbox.listRows,
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
  const strangers = new Set<Stranger>();
  const sweep = startSweep({ connections, strangers, look: draining.look });
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
  return { counts, life, receipts, draining, connections, strangers, sweep, patience, delivering };
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
