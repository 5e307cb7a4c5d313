import { setTimeout as sleep } from 'node:timers/promises';
import type { MqttDevice } from '../mqtt-device.ts';

const RETRY_PAUSE_MS = 50;
const MAX_ATTEMPTS = 100;
const REQUEST_TIMEOUT_MS = 10_000;

/** Pushes that a load has sent. */
export interface LoadReport {
  /** Recipients by the id of the accepted push, and the number in its payload. */
  accepted: Map<string, { to: readonly string[]; n: number }>;
  /** Responses other than 200 and 503, and pushes that no attempt got accepted. */
  failures: string[];
  /** Requests that were sent again because their connection ended. */
  retries: number;
  /** Requests that were sent again because of a 503. */
  refusals: number;
}

/** A load that continues until it is stopped. */
export interface SteadyLoad {
  report: LoadReport;
  /** Sends no more and waits for the responses. */
  stop(): Promise<void>;
}

/**
 * Sends pushes at a steady rate. As clients do, it repeats a request whose connection ends or that gets a 503, with its
 * idempotency key.
 *
 * @param recipients returns those of the n-th push
 */
export function startSteadyLoad(
  { api, apiKey }: { api: string; apiKey: string },
  perSecond: number,
  recipients: (n: number) => string[],
): SteadyLoad {
  const report: LoadReport = { accepted: new Map(), failures: [], retries: 0, refusals: 0 };
  const inFlight = new Set<Promise<void>>();
  let count = 0;

  /** Returns whether there is a final response. */
  async function post(n: number, to: readonly string[]): Promise<boolean> {
    const response = await fetch(`${api}/push?api_key=${apiKey}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': `upgrade-${n}` },
      body: JSON.stringify({ to, data: { n } }),
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    });
    const text = await response.text();
    if (response.status === 503) {
      report.refusals += 1;
      await sleep(Number(response.headers.get('retry-after')) * 1_000);
      return false;
    }
    if (response.status === 200) {
      const { id } = JSON.parse(text) as { id: string };
      report.accepted.set(id, { to, n });
    } else report.failures.push(`${response.status} ${text}`);
    return true;
  }

  async function send(n: number): Promise<void> {
    const to = recipients(n);
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
      try {
        if (await post(n, to)) return;
      } catch {
        report.retries += 1;
        await sleep(RETRY_PAUSE_MS);
      }
    }
    report.failures.push(`push ${n} was not accepted`);
  }

  const timer = setInterval(() => {
    const sent = send(count).finally(() => inFlight.delete(sent));
    inFlight.add(sent);
    count += 1;
  }, 1_000 / perSecond);
  return {
    report,
    async stop() {
      clearInterval(timer);
      await Promise.all(inFlight);
    },
  };
}

/** Keeps devices connected, as their SDK does, until the returned function is called. */
export function keepConnected(devices: readonly MqttDevice[]): () => Promise<void> {
  let isStopped = false;
  const loops = devices.map(async (device) => {
    while (!isStopped) {
      if (!device.connected) await device.connect().catch(() => undefined);
      await sleep(RETRY_PAUSE_MS);
    }
  });
  return async () => {
    isStopped = true;
    await Promise.all(loops);
  };
}
