import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { ServerAnswer, ServerOrder } from '../gateway/server-process.ts';

/** Bare socket servers, each in a process of its own, that send one frame to all who are connected. */
export interface RawBlast {
  ports: number[];
  /** Sends to all at once; when the last has answered, and the CPU of all servers, in seconds. */
  send(bytes: number): Promise<{ seconds: number; cpu: number }>;
  stop(): Promise<void>;
}

export async function startRawBlast(servers: number): Promise<RawBlast> {
  const script = fileURLToPath(new URL('../gateway/raw-server.ts', import.meta.url));
  const children = Array.from({ length: servers }, () =>
    fork(script, { execArgv: ['--expose-gc'] }),
  );
  const started = await Promise.all(children.map((child) => once(child, 'message')));
  return {
    ports: started.map(([answer]) => (answer as { port: number }).port),
    async send(bytes) {
      const startedAt = performance.now();
      const answers = children.map((child) => once(child, 'message'));
      for (const child of children) {
        child.send({ do: 'send', times: 1, bytes } satisfies ServerOrder);
      }
      const values = (await Promise.all(answers)).map(
        ([answer]) => (answer as Extract<ServerAnswer, { value: number }>).value,
      );
      const seconds = (performance.now() - startedAt) / 1_000;
      return { seconds, cpu: values.reduce((sum, value) => sum + value, 0) / 1e6 };
    },
    async stop() {
      await Promise.all(
        children.map(async (child) => {
          const ended = once(child, 'exit');
          child.disconnect();
          await ended;
        }),
      );
    },
  };
}
