import { rmSync } from 'node:fs';
import { startOf } from '../bootstrap/identity.mjs';
import { removeTraces } from '../bootstrap/left-over.mjs';
import type { Child } from './child.ts';
import type { Home } from './home.ts';

const DEV_FILE = 'dev.json';

/** What dev.json says beside the processes. */
interface Addresses {
  version: string;
  api: string;
  app: string;
  apiKey: string;
  mqtt: string;
  mqtts: string;
  ws: string;
  /** The control API of what plays the providers. */
  sandbox: string;
  /** Path of the certificate authority's certificate, PEM. */
  ca: string;
  mongodb: string;
  redis: string;
  /** Token of the simulated device. */
  device?: string;
}

/**
 * The two files that tell others about the stack: processes.json from the first process on, for
 * the clean-up after a kill -9; dev.json while the stack is ready, for scripts.
 */
export interface Register {
  /** A process has come. */
  changed(): void;
  ready(addresses: Addresses): void;
  /** The stack is no longer to be used. */
  stopped(): void;
  /** Nothing of the stack runs. */
  close(): void;
}

/** Makes the register of the processes that `children` gives at each time. */
export function createRegister(home: Home, children: () => readonly Child[]): Register {
  let addresses: Addresses | undefined;
  let open = true;
  return {
    changed: () => {
      if (!open) return;
      const living = listLiving(children());
      home.write('processes.json', living.map(identify));
      if (addresses !== undefined) home.write(DEV_FILE, devFile(addresses, living));
    },
    ready: (found) => {
      addresses = found;
      home.write(DEV_FILE, devFile(found, listLiving(children())));
    },
    stopped: () => {
      addresses = undefined;
      rmSync(home.at(DEV_FILE), { force: true });
    },
    close: () => {
      open = false;
      removeTraces(home.path);
    },
  };
}

interface Living {
  service: string;
  index: number;
  pid: number;
  ops?: string;
}

function listLiving(children: readonly Child[]): Living[] {
  return children.flatMap(({ plan: { service, index, ops }, pid }) => {
    if (pid === undefined) return [];
    return [{ service, index, pid, ...(ops === undefined ? {} : { ops }) }];
  });
}

function identify({ service, pid }: Living): { service: string; pid: number; started: string } {
  return { service, pid, started: startOf(pid) ?? '' };
}

function devFile(addresses: Addresses, living: readonly Living[]): unknown {
  const processes = living.filter(({ service }) => service !== 'simulated device');
  return { ready: true, ...addresses, processes };
}
