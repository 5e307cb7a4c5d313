import { openDevice } from './lean-device.ts';
import type { Scene } from './scene.ts';
import { until } from './until.ts';

/** Some devices in the bench's own process, so that one clock measures both ends. */
export interface Connected {
  tokens: string[];
  /** Resolves with the moment (`performance.now()`) at which the device had written its PUBACK. */
  arrival(mark: string): Promise<number>;
  close(): void;
}

/** Registers and connects devices; pushes to them carry `{"mark": …}`, which no other push has. */
export async function connectDevices(scene: Scene, count: number): Promise<Connected> {
  const tokens = await scene.audience.register(count);
  const port = Number(new URL(scene.stack.dev.mqtt).port);
  const waiting = new Map<string, (at: number) => void>();
  let connected = 0;
  const events = {
    connected() {
      connected += 1;
    },
    arrived(payload: Buffer) {
      const at = performance.now();
      const { mark } = JSON.parse(payload.toString()) as { mark: string };
      waiting.get(mark)?.(at);
      waiting.delete(mark);
    },
    closed: () => undefined,
  };
  const closers = tokens.map((token) =>
    openDevice(scene.audience.identify(token), { port }, events),
  );
  await until('the devices to be connected', () => connected === count);
  return {
    tokens,
    arrival: (mark) => new Promise((resolve) => waiting.set(mark, resolve)),
    close() {
      for (const close of closers) close();
    },
  };
}
