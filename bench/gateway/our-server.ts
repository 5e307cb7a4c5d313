import type { GatewayChannel } from '../../packages/presence/src/gateway-channel.ts';
import { createResultBatch } from '../../packages/presence/src/replies.ts';
import { createMetrics } from '../../packages/runtime/src/metrics.ts';
import { NO_ADDRESS_LIMITS } from '../../services/device-gateway/src/address-limits.ts';
import { createAppShares } from '../../services/device-gateway/src/app-shares.ts';
import { startConnectionReaper } from '../../services/device-gateway/src/connection-reaper.ts';
import { createConnections } from '../../services/device-gateway/src/connections.ts';
import { NO_PROXY_DETECTOR } from '../../services/device-gateway/src/detect-proxy.ts';
import type { InboxReplay } from '../../services/device-gateway/src/inbox-replay.ts';
import { listen } from '../../services/device-gateway/src/listen.ts';
import {
  createLiveDelivery,
  createWorkerReplies,
} from '../../services/device-gateway/src/live-delivery.ts';
import { createGatewayMetrics } from '../../services/device-gateway/src/metrics.ts';
import { createPendingConnections } from '../../services/device-gateway/src/pending-connections.ts';
import { AUTH_KEYS, createCountdown, serveBenchCommands } from './server-process.ts';

const RECIPIENTS_PER_BATCH = 1_000;
const REPLY_INTERVAL_MS = 10;
const EXPIRY_MS = 60_000;

/** The gateway's own parts without Redis and MongoDB: measures what a push costs at the sockets. */
const pendingAcks = createCountdown();
const resultBatch = createResultBatch();
setInterval(() => resultBatch.takeAll(), REPLY_INTERVAL_MS);

const clock = { now: () => Date.now() };
const benchChannel: Pick<GatewayChannel, 'register' | 'unregister' | 'reply' | 'now'> = {
  register: async () => undefined,
  unregister: async () => undefined,
  now: clock.now,
  reply(to, position, result) {
    resultBatch.add(to, position, result);
    if (result === 'acknowledged') pendingAcks.countDown();
    else if (result !== 'handled') throw new Error(`a delivery of the bench was ${result}`);
  },
};
const channel = () => benchChannel;

const maxConnections = Number.POSITIVE_INFINITY;
const metrics = createGatewayMetrics(createMetrics());
const shares = createAppShares(maxConnections);
const replies = createWorkerReplies(channel, metrics);
const lastSeen = { record: () => undefined, stop: async () => undefined };
const { settle } = replies;
const connections = createConnections({ channel, shares, settle, lastSeen, metrics });
const inboxReplay: Pick<InboxReplay, 'replay' | 'checkInbox'> = {
  replay: (connection) => connection.completeSync(),
  checkInbox: async () => undefined,
};
startConnectionReaper({
  connections,
  shares,
  inboxReplay,
  maxWaitingBytes: Number.POSITIVE_INFINITY,
});
const delivering = { channel, clock, connections, replies, inboxReplay, metrics };
const liveDelivery = createLiveDelivery(delivering);

const isBehindProxy = process.argv[2] === 'behind-proxy';
const [certFile, keyFile] = isBehindProxy ? [] : process.argv.slice(2);
const isSecure = certFile !== undefined && keyFile !== undefined;
const at = { host: '127.0.0.1', port: 0 };
const { ports } = await listen(
  isSecure ? { mqtts: at, tls: { certFile, keyFile } } : { mqtt: at },
  {
    maxConnections,
    hasProxyHeader: isBehindProxy,
    webSocketOrigins: 'any',
    log: { info: () => undefined, warn: () => undefined },
  },
  {
    connections,
    replies,
    receipts: { record: () => undefined },
    pendingConnections: createPendingConnections(Number.POSITIVE_INFINITY, () => undefined),
    shares,
    metrics,
    inboxReplay,
    limits: NO_ADDRESS_LIMITS,
    proxyDetector: NO_PROXY_DETECTOR,
    authKeys: AUTH_KEYS,
    iosApps: { record: () => undefined },
    lastSeen: { record: () => undefined },
    devices: {
      findForConnect: async () => ({ app: 'one', platform: 'electron' }),
      markConnected: async () => undefined,
    },
  },
);

let pushes = 0;
serveBenchCommands({
  port: isSecure ? ports.mqtts : ports.mqtt,
  connected: connections.size,
  async sendToAll(payload) {
    pushes += 1;
    const push = pushes.toString(16).padStart(24, '0');
    const tokens = [...connections.all()].map(({ token }) => token);
    const done = pendingAcks.start(tokens.length);
    for (let from = 0; from < tokens.length; from += RECIPIENTS_PER_BATCH) {
      const some = tokens.slice(from, from + RECIPIENTS_PER_BATCH);
      await liveDelivery.deliver({
        push,
        work: `${push}${from}`,
        claim: 'claim',
        reply: 'reply',
        deadline: Date.now() + EXPIRY_MS,
        expiresAt: Date.now() + EXPIRY_MS,
        payload,
        tokens: some,
        positions: some.map((_, index) => index),
      });
    }
    await done;
  },
});
