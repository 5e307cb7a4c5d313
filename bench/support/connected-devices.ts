import { openDevice } from './bench-device.ts';
import type { StackFixture } from './fixture.ts';
import { until } from './until.ts';

/** Devices in the benchmark's own process, so that one clock measures both ends. */
export interface ConnectedDevices {
  tokens: string[];
  /** Resolves with the time (`performance.now()`) at which the device had written its PUBACK. */
  waitForArrival(mark: string): Promise<number>;
  close(): void;
}

/** Registers and connects devices. A push to them contains a unique `{"mark": …}`. */
export async function connectDevices(
  fixture: StackFixture,
  count: number,
): Promise<ConnectedDevices> {
  const tokens = await fixture.audience.register(count);
  const port = Number(new URL(fixture.stack.dev.mqtt).port);
  const pendingArrivals = new Map<string, (at: number) => void>();
  let connected = 0;
  const events = {
    connected() {
      connected += 1;
    },
    arrived(payload: Buffer) {
      const at = performance.now();
      const { mark } = JSON.parse(payload.toString()) as { mark: string };
      pendingArrivals.get(mark)?.(at);
      pendingArrivals.delete(mark);
    },
    closed: () => undefined,
  };
  const closers = tokens.map((token) =>
    openDevice(fixture.audience.credentialsOf(token), { port }, events),
  );
  await until('the devices to be connected', () => connected === count);
  return {
    tokens,
    waitForArrival: (mark) => new Promise((resolve) => pendingArrivals.set(mark, resolve)),
    close() {
      for (const close of closers) close();
    },
  };
}
