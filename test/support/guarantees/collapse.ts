import { setTimeout as sleep } from 'node:timers/promises';
import { type SentPush, sendPush } from '../faults/pushes.ts';
import type { MqttDevice } from '../mqtt-device.ts';
import type { Stack } from '../stack.ts';

/** An older push of a collapse key that came after a newer one. */
export interface OutOfOrder {
  device: string;
  older: string;
  newer: string;
  afterMs: number;
  isOnOneConnection: boolean;
}

/** Whatever came to a device after a newer push, each by the first newer one. @param pushes of one key, oldest first */
export function findOutOfOrder(device: MqttDevice, pushes: readonly SentPush[]): OutOfOrder[] {
  const indexByPayload = new Map(pushes.map(({ payload }, index) => [payload, index]));
  const expected = device.arrivals.filter(({ payload }) => indexByPayload.has(payload));
  return expected.flatMap((older, index) => {
    const age = indexByPayload.get(older.payload) ?? 0;
    const newer = expected
      .slice(0, index)
      .find(({ payload }) => (indexByPayload.get(payload) ?? 0) > age);
    if (newer === undefined) return [];
    return [
      {
        device: device.token,
        older: older.topic,
        newer: newer.topic,
        afterMs: Math.round(older.receivedAtMs - newer.receivedAtMs),
        isOnOneConnection: older.connection === newer.connection,
      },
    ];
  });
}

/** Sends pushes of a collapse key one after another for a while. Returns the accepted ones, oldest first. */
export async function sendRepeatedly(
  stack: Pick<Stack, 'api'>,
  devices: readonly MqttDevice[],
  collapse_key: string,
  forMs: number,
): Promise<SentPush[]> {
  const tokens = devices.map(({ token }) => token);
  const pushes: SentPush[] = [];
  const endsAt = performance.now() + forMs;
  while (performance.now() < endsAt) {
    pushes.push(await sendPush(stack, tokens, { collapse_key }));
    await sleep(100 + Math.random() * 200);
  }
  return pushes;
}

/** Breaks connections at random, each about once a second, and has some devices delay receipts for a while. */
export function disconnectRepeatedly(devices: readonly MqttDevice[]): { stop(): Promise<void> } {
  let isStopped = false;
  const disrupt = async (device: MqttDevice) => {
    while (!isStopped) {
      await sleep(Math.random() * 1_500);
      if (Math.random() < 0.3) device.holdReceipts();
      else device.releaseReceipts();
      if (Math.random() < 0.6) device.cut();
    }
    device.releaseReceipts();
  };
  const disruptions = devices.map(disrupt);
  return {
    async stop() {
      isStopped = true;
      await Promise.all(disruptions);
    },
  };
}
