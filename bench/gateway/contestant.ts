import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { LoadOrder } from './load-process.ts';
import type { ServerAnswer, ServerOrder } from './server-process.ts';

const LOOK_MS = 50;

/** A server process and the devices that a second process plays for it. */
export interface Contestant {
  /** Opens so many more devices. */
  connect(devices: number): Promise<void>;
  /** Sends so many pushes to all; microseconds of the server's CPU for one message. */
  send(times: number, bytes: number): Promise<number>;
  /** Resident bytes of the server, after a garbage collection. */
  memory(): Promise<number>;
  stop(): Promise<void>;
}

/** @param script of the server, beside this file */
export async function startContestant(
  script: string,
  args: readonly string[] = [],
): Promise<Contestant> {
  const isSecure = args.length > 0;
  const server = forkBeside(script, args);
  const load = forkBeside('load-process.ts', []);
  const [{ port }] = (await once(server, 'message')) as [{ port: number }];
  let devices = 0;

  async function ask(order: ServerOrder): Promise<number> {
    const answered = once(server, 'message');
    server.send(order);
    const [answer] = (await answered) as [Extract<ServerAnswer, { value: number }>];
    return answer.value;
  }

  return {
    async connect(more) {
      devices += more;
      load.send({ port, devices: more, isSecure } satisfies LoadOrder);
      while ((await ask({ do: 'connected' })) < devices) await sleep(LOOK_MS);
    },
    send: async (times, bytes) => (await ask({ do: 'send', times, bytes })) / (times * devices),
    memory: () => ask({ do: 'memory' }),
    async stop() {
      await Promise.all([end(server), end(load)]);
    },
  };
}

function forkBeside(script: string, args: readonly string[]): ChildProcess {
  const path = fileURLToPath(new URL(script, import.meta.url));
  return fork(path, args, { execArgv: ['--expose-gc'] });
}

async function end(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.disconnect();
  await ended;
}
