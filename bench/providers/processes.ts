import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { ServersAnswer, ServersOrder } from './providers-server.ts';
import { makeCertificates, makeScene, type Scene } from './scene.ts';
import type { SenderAnswer, SenderOrder } from './sender.ts';

/** The servers that play the providers. */
export interface Servers {
  scene: Scene;
  /** Microseconds of CPU so far. */
  cpu(): Promise<number>;
  stop(): Promise<void>;
}

/** A process that sends. */
export interface SenderProcess {
  /** Microseconds of its CPU for one message. */
  send(count: number): Promise<number>;
  stop(): Promise<void>;
}

/** Starts the servers in a process of their own. */
export async function startServers(): Promise<Servers> {
  const { ca, server } = await makeCertificates();
  const child = forkBeside('providers-server.ts');
  const tls = { cert: server.certificate, key: server.key };
  const started = await ask<ServersAnswer>(child, { tls } satisfies ServersOrder);
  if (!('ports' in started)) throw new Error('the servers did not start');
  return {
    scene: makeScene(ca, started.ports),
    async cpu() {
      const answer = await ask<ServersAnswer>(child, 'cpu' satisfies ServersOrder);
      return 'cpu' in answer ? answer.cpu : Number.NaN;
    },
    stop: () => end(child),
  };
}

/** @param script of the sender, beside this file */
export async function startSender(script: string, scene: Scene): Promise<SenderProcess> {
  const child = forkBeside(script);
  await ask<SenderAnswer>(child, { scene } satisfies SenderOrder);
  return {
    async send(count) {
      const { cpu } = await ask<SenderAnswer>(child, { send: count } satisfies SenderOrder);
      return cpu / count;
    },
    stop: () => end(child),
  };
}

function forkBeside(script: string): ChildProcess {
  return fork(fileURLToPath(new URL(script, import.meta.url)));
}

function ask<A>(child: ChildProcess, order: object | string): Promise<A> {
  return new Promise((resolve, reject) => {
    const ended = () => reject(new Error(`${child.spawnargs.at(-1)} has ended`));
    child.once('exit', ended);
    child.once('message', (answer) => {
      child.off('exit', ended);
      resolve(answer as A);
    });
    child.send(order);
  });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = once(child, 'exit');
  child.disconnect();
  await ended;
}
