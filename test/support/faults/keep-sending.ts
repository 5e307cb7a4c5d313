import { readMetric } from '../metric-values.ts';
import type { MqttDevice } from '../mqtt-device.ts';
import type { Stack } from '../stack.ts';
import { until } from '../until.ts';
import { type SentPush, sendPush } from './pushes.ts';

/** Results in a row that show that a connection is live. */
const LIVE_RESULTS = 10;
const LIVE_WITHIN_MS = 60_000;

/** Sends pushes to a connected device, whether or not the previous ones have a response, until it is stopped. */
export function keepSendingTo(
  stack: Pick<Stack, 'api' | 'dev'>,
  token: string,
  perSecond: number,
): {
  /** Waits until the gateway has written several pushes in a row at once: none of them has an inbox row. */
  untilLive(): Promise<void>;
  stop(): void;
  /** Returns all pushes once they have a response. @throws when one was not accepted */
  listSent(): Promise<readonly SentPush[]>;
} {
  const sending: Promise<SentPush>[] = [];
  const timer = setInterval(() => {
    const sent = sendPush(stack, token);
    // It is thrown at the end.
    sent.catch(() => undefined);
    sending.push(sent);
  }, 1_000 / perSecond);
  const { ops } = stack.dev.processes.find(({ service }) => service === 'device-gateway') ?? {};
  const readResults = () => readMetric(ops, 'carillon_gateway_answers_total');
  return {
    async untilLive() {
      let before = await readResults();
      const isLive = async () => {
        const now = await readResults();
        const count = (result: string) => (now[result] ?? 0) - (before[result] ?? 0);
        if (count('syncing') > 0) before = now;
        return count('acknowledged') >= LIVE_RESULTS;
      };
      await until(isLive, { timeoutMs: LIVE_WITHIN_MS, everyMs: 200, what: 'a live connection' });
    },
    stop: () => clearInterval(timer),
    listSent: () => Promise.all(sending),
  };
}

/** Lists the pushes that a device has not got. */
export function findMissing(
  { arrivals }: Pick<MqttDevice, 'arrivals'>,
  sent: readonly SentPush[],
): SentPush[] {
  const arrived = new Set(arrivals.map(({ payload }) => payload));
  return sent.filter(({ payload }) => !arrived.has(payload));
}
