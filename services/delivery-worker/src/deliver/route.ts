import { type ProviderSecret, providerSecret } from '@carillon/core/credentials';
import { type SealingKeys, unseal } from '@carillon/core/sealing';
import type { CredentialDocument } from '@carillon/store/documents';
import { LRUCache } from 'lru-cache';
import { type Circuit, createCircuit } from './circuit.ts';
import type { Address, ProviderChannel, ProviderClient } from './provider.ts';
import { createSemaphore, type Semaphore } from './semaphore.ts';

/** What shares one provider's server, one circuit and one window. */
export interface Line {
  window: Semaphore;
  circuit: Circuit;
}

/** A credential in use: its client, and its lines. */
export interface Route {
  client: ProviderClient;
  lineOf(address: Address): Line;
  /** The provider refuses the credential: told to operators. */
  refused(detail: string, restMs: number): void;
  /** It takes it. */
  accepted(): void;
}

/** Web Push endpoints come from devices, and names under a vendor's domain have no end. */
const LINES_KEPT = 1_000;

/** What a route needs. */
export interface RouteDeps {
  channel: ProviderChannel;
  keys: SealingKeys;
  noteRefusal(id: string, revision: string, detail: string, restMs: number): Promise<void>;
  noteAccepted(id: string, revision: string): Promise<void>;
  onError(error: unknown): void;
}

/** A credential's revision, opened. */
export interface OpenRoute {
  document: CredentialDocument;
  route: Route;
  /** One of its lines rests. */
  rests(): boolean;
  close(): Promise<void>;
}

/** Opens the client of a credential. @throws Error when its secret can't be unsealed or read */
export function openRoute(deps: RouteDeps, document: CredentialDocument): OpenRoute {
  const client = deps.channel.connect(secretOf(deps.keys, document));
  const lines = new LRUCache<string, Line>({ max: LINES_KEPT });
  const { _id, revision } = document;
  let isRefused = document.refused !== undefined;
  const route: Route = {
    client,
    lineOf(address) {
      const name = client.lineOf(address);
      const found = lines.get(name);
      if (found !== undefined) return found;
      const line = {
        window: createSemaphore(deps.channel.window),
        circuit: createCircuit(() => performance.now(), Math.random),
      };
      lines.set(name, line);
      return line;
    },
    refused(detail, restMs) {
      isRefused = true;
      deps.noteRefusal(_id, revision, detail, restMs).catch(deps.onError);
    },
    accepted() {
      if (!isRefused) return;
      isRefused = false;
      deps.noteAccepted(_id, revision).catch(deps.onError);
    },
  };
  const rests = () => [...lines.values()].some(({ circuit }) => circuit.isOpen());
  return { document, route, rests, close: () => client.close() };
}

function secretOf(keys: SealingKeys, { _id, secret }: CredentialDocument): ProviderSecret {
  return providerSecret.parse(JSON.parse(unseal(keys, _id, secret)));
}
