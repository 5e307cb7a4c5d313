import { parseDeviceAuthKeys } from '../../packages/core/src/device-auth.ts';

/** Keys that sign the credentials of the bench's devices. */
export const AUTH_KEYS = parseDeviceAuthKeys(`1:${'ab'.repeat(32)}`);

/** A server process that holds device connections and sends pushes to all of them. */
export interface BenchServer {
  port: number;
  connected(): number;
  /** Sends one push of QoS 1 to every device and resolves when each has acknowledged it. */
  sendToAll(payload: string): Promise<void>;
}

export type ServerCommand =
  | { do: 'send'; times: number; bytes: number }
  | { do: 'connected' }
  | { do: 'memory' };

/** Reply to a command: microseconds of CPU for `send`, a count, or bytes of resident memory. */
export type ServerReply = { port: number } | { value: number };

/** Serves the commands of the bench that forked this process. */
export function serveBenchCommands(server: BenchServer): void {
  const sendReply = (value: number) => process.send?.({ value } satisfies ServerReply);

  async function send(times: number, bytes: number): Promise<void> {
    const before = process.cpuUsage();
    for (let n = 0; n < times; n += 1) await server.sendToAll('x'.repeat(bytes));
    const { user, system } = process.cpuUsage(before);
    sendReply(user + system);
  }

  process.on('message', (command: ServerCommand) => {
    if (command.do === 'send') void send(command.times, command.bytes);
    else if (command.do === 'connected') sendReply(server.connected());
    else {
      // Without a collection the value depends on when the garbage collector last ran.
      globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
      sendReply(process.memoryUsage.rss());
    }
  });
  process.on('disconnect', () => process.exit());
  process.send?.({ port: server.port } satisfies ServerReply);
}

/** Creates a countdown; `start` resolves when `count` acknowledgements were counted. */
export function createCountdown(): {
  start(count: number): Promise<void>;
  countDown(): void;
} {
  let remaining = 0;
  let resolveWhenZero: () => void = () => undefined;
  return {
    start(count) {
      remaining = count;
      return new Promise((resolve) => {
        resolveWhenZero = resolve;
      });
    },
    countDown() {
      remaining -= 1;
      if (remaining === 0) resolveWhenZero();
    },
  };
}
