import { Agent, request } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import type { MqttDevice } from '../mqtt-device.ts';

const REQUEST_TIMEOUT_MS = 15_000;
const MAX_SOCKETS = 64;
/** Back-off of a client without a connection: doubled with each failure, with jitter. */
const BACKOFF_MS = { first: 500, max: 8_000 };
const CONNECTION_CHECK_MS = 50;

/** One push of a load. */
export interface SentPush {
  n: number;
  to: readonly string[];
  /** Unix time in seconds. */
  schedule?: number;
}

/** Pushes that a load has sent. */
export interface LoadReport {
  /** By the id of the accepted push. */
  accepted: Map<string, SentPush>;
  /** Every response other than 200, and every request without a response: nothing is sent twice. */
  failures: string[];
  /** Of the accepted pushes. */
  latenciesMs: number[];
}

/** A load that continues until it is stopped. */
export interface PushLoad {
  report: LoadReport;
  /** Sends no more and waits for the responses. */
  stop(): Promise<void>;
}

/**
 * Sends pushes at a steady rate over kept-alive HTTPS connections, each once.
 *
 * @param ca PEM of the authority that the server is checked against
 * @param next returns the n-th push
 */
export function startPushLoad(
  server: { port: number; ca: string; apiKey: string },
  perSecond: number,
  next: (n: number) => Omit<SentPush, 'n'>,
): PushLoad {
  const report: LoadReport = { accepted: new Map(), failures: [], latenciesMs: [] };
  const agent = new Agent({ keepAlive: true, maxSockets: MAX_SOCKETS, ca: server.ca });
  const inFlight = new Set<Promise<void>>();
  const startedAt = performance.now();
  let count = 0;

  async function send(n: number): Promise<void> {
    const push = { n, ...next(n) };
    const { to, schedule } = push;
    const body = JSON.stringify({ to, schedule, data: { n }, time_to_live: 3_600 });
    const sentAt = performance.now();
    try {
      const { status, text } = await post(agent, server, body);
      const ms = Math.round(performance.now() - sentAt);
      if (status !== 200) {
        return void report.failures.push(`push ${n} after ${ms} ms: ${status} ${text}`);
      }
      report.accepted.set((JSON.parse(text) as { id: string }).id, push);
      report.latenciesMs.push(performance.now() - sentAt);
    } catch (error) {
      report.failures.push(`push ${n}: ${error}`);
    }
  }

  const timer = setInterval(() => {
    // A timer that fires late would lower the rate.
    const due = ((performance.now() - startedAt) / 1_000) * perSecond;
    for (; count < due; count += 1) {
      const sent = send(count).finally(() => inFlight.delete(sent));
      inFlight.add(sent);
    }
  }, 1_000 / perSecond);
  return {
    report,
    async stop() {
      clearInterval(timer);
      await Promise.all(inFlight);
      agent.destroy();
    },
  };
}

function post(
  agent: Agent,
  { port, apiKey }: { port: number; apiKey: string },
  body: string,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = request({
      ...{ agent, port, host: '127.0.0.1', method: 'POST', path: `/push?api_key=${apiKey}` },
      headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
      timeout: REQUEST_TIMEOUT_MS,
    });
    sent.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
      response.on('error', reject);
    });
    sent.on('timeout', () => sent.destroy(new Error(`no response in ${REQUEST_TIMEOUT_MS} ms`)));
    sent.on('error', reject);
    sent.end(body);
  });
}

/** Keeps devices connected, with the back-off of a client, until the returned function is called. */
export function keepConnected(devices: readonly MqttDevice[]): () => Promise<void> {
  let isStopped = false;
  const loops = devices.map(async (device) => {
    let backoffMs = BACKOFF_MS.first;
    while (!isStopped) {
      await sleep(CONNECTION_CHECK_MS);
      if (device.connected) {
        backoffMs = BACKOFF_MS.first;
        continue;
      }
      await sleep(backoffMs / 2 + (Math.random() * backoffMs) / 2);
      backoffMs = Math.min(BACKOFF_MS.max, backoffMs * 2);
      if (!isStopped) await device.connect().catch(() => undefined);
    }
  });
  return async () => {
    isStopped = true;
    await Promise.all(loops);
  };
}
