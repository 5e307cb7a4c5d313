import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { createCertificates, createProviderFixture, type ProviderFixture } from './fixture.ts';
import type { ServersCommand, ServersReply } from './providers-server.ts';
import type { SenderCommand, SenderReply } from './sender.ts';

/** The servers that simulate the providers. */
export interface Servers {
  fixture: ProviderFixture;
  /** Returns their CPU time in microseconds. */
  cpu(): Promise<number>;
  stop(): Promise<void>;
}

/** A sender process. */
export interface SenderProcess {
  /** Sends messages. @returns microseconds of its CPU time per message */
  send(count: number): Promise<number>;
  stop(): Promise<void>;
}

/** Starts the servers in a child process. */
export async function startServers(): Promise<Servers> {
  const { ca, server } = await createCertificates();
  const child = forkBeside('providers-server.ts');
  const tls = { cert: server.certificate, key: server.key };
  const started = await request<ServersReply>(child, { tls } satisfies ServersCommand);
  if (!('ports' in started)) throw new Error('the servers did not start');
  return {
    fixture: createProviderFixture(ca, started.ports),
    async cpu() {
      const reply = await request<ServersReply>(child, 'cpu' satisfies ServersCommand);
      return 'cpu' in reply ? reply.cpu : Number.NaN;
    },
    stop: () => stopProcess(child),
  };
}

/** Starts a sender. @param script file name in this folder */
export async function startSender(
  script: string,
  fixture: ProviderFixture,
): Promise<SenderProcess> {
  const child = forkBeside(script);
  await request<SenderReply>(child, { fixture } satisfies SenderCommand);
  return {
    async send(count) {
      const { cpu } = await request<SenderReply>(child, { send: count } satisfies SenderCommand);
      return cpu / count;
    },
    stop: () => stopProcess(child),
  };
}

function forkBeside(script: string): ChildProcess {
  return fork(fileURLToPath(new URL(script, import.meta.url)));
}

function request<A>(child: ChildProcess, command: object | string): Promise<A> {
  return new Promise((resolve, reject) => {
    const ended = () => reject(new Error(`${child.spawnargs.at(-1)} has ended`));
    child.once('exit', ended);
    child.once('message', (reply) => {
      child.off('exit', ended);
      resolve(reply as A);
    });
    child.send(command);
  });
}

async function stopProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = once(child, 'exit');
  child.disconnect();
  await ended;
}
