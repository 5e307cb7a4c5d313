import { openDevice } from './bench-device.ts';
import type { StackFixture } from './fixture.ts';
import { until } from './until.ts';

/** Devices in the benchmark's own process, so that one clock measures both ends. */
export interface ConnectedDevices {
  tokens: string[];
  /**
   * Resolves with the time (`performance.now()`) at which the last of so many devices, by default one, had written its
   * PUBACK.
   */
  waitForArrival(mark: string, count?: number): Promise<number>;
  close(): void;
}

/** Registers and connects devices. A push to them contains a unique `{"mark": …}`. */
export async function connectDevices(
  fixture: StackFixture,
  count: number,
): Promise<ConnectedDevices> {
  const tokens = await fixture.audience.register(count);
  const port = Number(new URL(fixture.stack.dev.mqtt).port);
  const pendingArrivals = new Map<string, { missing: number; resolve(at: number): void }>();
  let connected = 0;
  const events = {
    connected() {
      connected += 1;
    },
    arrived(payload: Buffer) {
      const at = performance.now();
      const { mark } = JSON.parse(payload.toString()) as { mark: string };
      const pending = pendingArrivals.get(mark);
      if (pending === undefined) return;
      pending.missing -= 1;
      if (pending.missing > 0) return;
      pendingArrivals.delete(mark);
      pending.resolve(at);
    },
    closed: () => undefined,
  };
  const closers = tokens.map((token) =>
    openDevice(fixture.audience.credentialsOf(token), { port }, events),
  );
  await until('the devices to be connected', () => connected === count);
  return {
    tokens,
    waitForArrival: (mark, count = 1) =>
      new Promise((resolve) => pendingArrivals.set(mark, { missing: count, resolve })),
    close() {
      for (const close of closers) close();
    },
  };
}
