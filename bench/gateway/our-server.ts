import type { Addressee, Answer } from '../../packages/presence/src/gateway-link.ts';
import { createReplyBook } from '../../packages/presence/src/replies.ts';
import { createMetrics } from '../../packages/runtime/src/metrics.ts';
import { NO_ADDRESS_LIMITS } from '../../services/device-gateway/src/address-limits.ts';
import { admit } from '../../services/device-gateway/src/admit.ts';
import { createConnections } from '../../services/device-gateway/src/connections.ts';
import { createCounts } from '../../services/device-gateway/src/counts.ts';
import { createDelivering } from '../../services/device-gateway/src/deliver.ts';
import { listen } from '../../services/device-gateway/src/listen.ts';
import { createPatience } from '../../services/device-gateway/src/patience.ts';
import { serveLink } from '../../services/device-gateway/src/serve-link.ts';
import { createStrangers } from '../../services/device-gateway/src/strangers.ts';
import { startSweep } from '../../services/device-gateway/src/sweep.ts';
import { createCountdown, obeyBench } from './server-process.ts';

const RECIPIENTS_PER_BATCH = 1_000;
const REPLY_EVERY_MS = 10;
const FAR_MS = 60_000;

/** The gateway's own parts, without Redis and MongoDB behind them: what a message costs at the sockets. */
const waiting = createCountdown();
const book = createReplyBook();
setInterval(() => book.take(), REPLY_EVERY_MS);

const counts = createCounts(createMetrics());

function answer(to: Addressee, what: Answer): void {
  counts.answered(what);
  book.add(to, what);
  waiting.tick();
}

const connections = createConnections({
  announce: async () => undefined,
  withdraw: async () => undefined,
  answer,
  drain(connection) {
    connection.state = 'live';
  },
  record: () => undefined,
  sawDevice: () => undefined,
  acknowledged: counts.acknowledged,
  closed: () => undefined,
});
const patience = createPatience(answer);
const sweep = startSweep({ connections, look: async () => undefined });
const delivering = createDelivering({
  find: connections.find,
  answer() {
    throw new Error('a device of the bench could not be sent to');
  },
  await: patience.await,
  isStrained: sweep.isStrained,
  redisNow: () => Date.now(),
  mongoNow: () => Date.now(),
  rowId: ({ token, push }) => `${token}:${push}`,
  drain: () => undefined,
  published: () => counts.published('live'),
});
const strangers = createStrangers(NO_ADDRESS_LIMITS);
const linkDeps = {
  connections,
  strangers,
  limits: NO_ADDRESS_LIMITS,
  admit: (frame: Buffer) =>
    admit(frame, { isDeviceAuth: () => true, findDevice: async () => ({}) }),
  look: async () => undefined,
  connected: () => undefined,
};

const [certFile, keyFile] = process.argv.slice(2);
const isSecure = certFile !== undefined && keyFile !== undefined;
const at = { host: '127.0.0.1', port: 0 };
const { ports } = await listen(
  isSecure ? { mqtts: at, tls: { certFile, keyFile } } : { mqtt: at },
  {
    limits: NO_ADDRESS_LIMITS,
    strangers,
    isFull: () => false,
    hasProxyHeader: false,
    turnedAway: () => undefined,
    serve: (stranger) => serveLink(linkDeps, stranger),
    certificate: () => undefined,
  },
);

let pushes = 0;
obeyBench({
  port: isSecure ? ports.mqtts : ports.mqtt,
  connected: connections.size,
  async sendToAll(payload) {
    pushes += 1;
    const push = pushes.toString(16).padStart(24, '0');
    const tokens = [...connections.all()].map(({ token }) => token);
    const done = waiting.start(tokens.length);
    for (let from = 0; from < tokens.length; from += RECIPIENTS_PER_BATCH) {
      const some = tokens.slice(from, from + RECIPIENTS_PER_BATCH);
      await delivering.deliver({
        push,
        work: `${push}${from}`,
        claim: 'claim',
        reply: 'reply',
        deadline: Date.now() + FAR_MS,
        expiresAt: Date.now() + FAR_MS,
        payload,
        tokens: some,
        positions: some.map((_, index) => index),
      });
    }
    await done;
  },
});
