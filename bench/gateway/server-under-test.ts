import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { LoadCommand, Way } from './load-process.ts';
import type { ServerCommand, ServerReply } from './server-process.ts';

const POLL_INTERVAL_MS = 50;

/** A server process, with its devices in a second process. */
export type ServerUnderTest = Awaited<ReturnType<typeof startServerUnderTest>>;

/**
 * Starts a server process and its devices.
 *
 * @param script file name of the server, in this folder
 * @param args of the server, which make it expect devices that connect in this way
 */
export async function startServerUnderTest(
  script: string,
  args: readonly string[] = [],
  way: Way = 'plain',
) {
  const server = forkScript(script, args);
  const load = forkScript('load-process.ts', []);
  const [{ port }] = (await once(server, 'message')) as [{ port: number }];
  let devices = 0;

  async function request(command: ServerCommand): Promise<number> {
    const replied = once(server, 'message');
    server.send(command);
    const [reply] = (await replied) as [Extract<ServerReply, { value: number }>];
    return reply.value;
  }

  return {
    /** Connects further devices. */
    async connect(added: number): Promise<void> {
      devices += added;
      load.send({ port, devices: added, way } satisfies LoadCommand);
      while ((await request({ do: 'connected' })) < devices) await sleep(POLL_INTERVAL_MS);
    },
    /** Sends pushes to all devices; returns microseconds of the server's CPU per message. */
    send: async (times: number, bytes: number): Promise<number> =>
      (await request({ do: 'send', times, bytes })) / (times * devices),
    /** Returns the resident bytes of the server, after a garbage collection. */
    memory: (): Promise<number> => request({ do: 'memory' }),
    async stop(): Promise<void> {
      await Promise.all([stopProcess(server), stopProcess(load)]);
    },
  };
}

function forkScript(script: string, args: readonly string[]): ChildProcess {
  const path = fileURLToPath(new URL(script, import.meta.url));
  return fork(path, args, { execArgv: ['--expose-gc'] });
}

async function stopProcess(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.disconnect();
  await exited;
}
