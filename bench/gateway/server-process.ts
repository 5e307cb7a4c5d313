/** A server that holds devices and sends to all of them, in a process of its own. */
export interface BenchServer {
  port: number;
  connected(): number;
  /** Sends one push of QoS 1 to every device and resolves when each has acknowledged it. */
  sendToAll(payload: string): Promise<void>;
}

export type ServerOrder =
  | { do: 'send'; times: number; bytes: number }
  | { do: 'connected' }
  | { do: 'memory' };

/** Answers to the orders: microseconds of CPU for `send`, a count, or bytes of resident memory. */
export type ServerAnswer = { port: number } | { value: number };

/** Serves the orders of the bench that forked this process. */
export function obeyBench(server: BenchServer): void {
  const answer = (value: number) => process.send?.({ value } satisfies ServerAnswer);

  async function send(times: number, bytes: number): Promise<void> {
    const before = process.cpuUsage();
    for (let n = 0; n < times; n += 1) await server.sendToAll('x'.repeat(bytes));
    const { user, system } = process.cpuUsage(before);
    answer(user + system);
  }

  process.on('message', (order: ServerOrder) => {
    if (order.do === 'send') void send(order.times, order.bytes);
    else if (order.do === 'connected') answer(server.connected());
    else {
      // Without the slack of the heap: how much of it there is depends on when the collector last ran.
      globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
      answer(process.memoryUsage.rss());
    }
  });
  process.on('disconnect', () => process.exit());
  process.send?.({ port: server.port } satisfies ServerAnswer);
}

/** Resolves when so many acknowledgements were counted. */
export function createCountdown(): {
  start(count: number): Promise<void>;
  tick(by?: number): void;
} {
  let left = 0;
  let done: () => void = () => undefined;
  return {
    start(count) {
      left = count;
      return new Promise((resolve) => {
        done = resolve;
      });
    },
    tick() {
      left -= 1;
      if (left === 0) done();
    },
  };
}
