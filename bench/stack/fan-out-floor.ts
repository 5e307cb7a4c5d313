import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { ServerCommand, ServerReply } from '../gateway/server-process.ts';

/** Bare socket servers, each in its own process, that send one frame to every connection. */
export interface FanOutFloor {
  ports: number[];
  /** Sends to all at once. @returns the time of the last reply, and the servers' CPU time in seconds */
  send(bytes: number): Promise<{ seconds: number; cpu: number }>;
  stop(): Promise<void>;
}

export async function startFanOutFloor(servers: number): Promise<FanOutFloor> {
  const script = fileURLToPath(new URL('../gateway/raw-server.ts', import.meta.url));
  const children = Array.from({ length: servers }, () =>
    // Detached, as the processes of the stack and of the devices are.
    fork(script, { execArgv: ['--expose-gc'], detached: true }),
  );
  const started = await Promise.all(children.map((child) => once(child, 'message')));
  return {
    ports: started.map(([message]) => (message as { port: number }).port),
    async send(bytes) {
      const startedAt = performance.now();
      const replies = children.map((child) => once(child, 'message'));
      for (const child of children) {
        child.send({ do: 'send', times: 1, bytes } satisfies ServerCommand);
      }
      const values = (await Promise.all(replies)).map(
        ([message]) => (message as Extract<ServerReply, { value: number }>).value,
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
