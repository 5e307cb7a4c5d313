import { type DeviceAuthKeys, isDeviceAuth } from '@carillon/core/device-auth';
import { createGatewayLink } from '@carillon/presence/gateway-link';
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
import { createReceipts } from './receipts.ts';
import { sayGoodbye } from './say-goodbye.ts';
import { type Stranger, serveLink } from './serve-link.ts';
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
  const { store, producers } = settings;
  const counts = createCounts(settings.metrics);
  const limits = settings.hasAddressLimits ? createAddressLimits() : NO_ADDRESS_LIMITS;
  const life = createSignsOfLife(producers.presence, store.clock.now);
  const receipts = createReceipts({ record: store.receipts.record, finish: producers.finish });
  const strangers = new Set<Stranger>();

  const draining = createDraining({
    listRows: store.inbox.listRows,
    removeRow: (push, row) => store.inbox.remove(push, [row]),
    readForSending: store.pushes.readForSending,
    isSendable: store.pushes.isSendable,
    exists: async (token) => isRegistered(await store.devices.findForConnect(token)),
    record: receipts.record,
    close: (connection, reason) => connections.close(connection, reason),
    sent: () => counts.published('inbox'),
  });
  const connections = createConnections({
    announce: (place) => link.announce(place),
    withdraw: (place) => link.withdraw(place),
    answer: (to, answer) => link.answer(to, answer),
    drain: draining.drain,
    record: receipts.record,
    sawDevice: life.saw,
    acknowledged: counts.acknowledged,
    closed: counts.closed,
  });
  counts.watch(connections);
  const delivering = createDelivering({
    find: connections.find,
    answer(to, answer) {
      counts.answered(answer);
      link.answer(to, answer);
    },
    redisNow: () => link.now(),
    mongoNow: store.clock.now,
    rowId,
    drain: draining.drain,
    published: () => counts.published('live'),
  });

  const isHere = (place: { token: string; connection: string }): boolean => {
    const connection = connections.find(place.token);
    return connection?.id === place.connection && connection.isOpen();
  };
  const drainToken = (token: string): void => {
    const connection = connections.find(token);
    if (connection !== undefined) draining.drain(connection);
  };
  const link = await createGatewayLink(settings.presenceUrl, {
    deliver: delivering.deliver,
    drain: drainToken,
    kick(place) {
      const connection = connections.find(place.token);
      if (connection?.id === place.connection) connections.close(connection, 'taken-over');
    },
    announced: (place) => drainToken(place.token),
    *links() {
      for (const { token, id } of connections.all()) yield { token, connection: id };
    },
    isHere,
    credit: () => Math.max(0, CAPACITY - delivering.unwritten()),
  });

  const silence = setInterval(delivering.answerSilent, SILENCE_EVERY_MS);
  const stopSweep = startSweep({ connections, strangers, look: draining.look });
  const linkDeps = {
    connections,
    limits,
    admit: (frame: Buffer) =>
      admit(frame, {
        isDeviceAuth: (token, auth) => isDeviceAuth(settings.authKeys, token, auth),
        findDevice: store.devices.findForConnect,
      }),
    look: draining.look,
    connected: counts.connected,
  };
  const server = await listenTcp(settings.listen, limits, (stream, address) =>
    serveLink(linkDeps, strangers, stream, address),
  );

  return {
    port: server.port,
    isAnnounced: link.isHeld,
    async stop() {
      server.stop();
      for (const { stream } of strangers) stream.destroy();
      await sayGoodbye(connections, settings.goodbyeSeconds);
      clearInterval(silence);
      stopSweep();
      limits.stop();
      await Promise.all([receipts.flush(), life.stop()]);
      await link.close();
    },
  };
}

function isRegistered(device: { deletedAt?: Date } | undefined): boolean {
  return device !== undefined && device.deletedAt === undefined;
}
