import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals';
import type { SandboxCredentials } from '../../../test/support/providers/sandbox.ts';
import {
  type OwnSandbox,
  startOwnSandbox,
} from '../../../test/support/providers/sandbox-process.ts';
import type { Attempt, ProviderClient, ProviderPush } from '../src/deliver/provider.ts';
import { createPush } from './pushes.ts';

let sandbox: OwnSandbox;
let credentials: SandboxCredentials;
beforeAll(async () => {
  sandbox = await startOwnSandbox();
  credentials = await sandbox.credentials();
}, 90_000);
afterAll(() => sandbox?.stop());

/** The providers' sandbox of a test file, and the client of the test that runs. */
export interface ProviderUnderTest {
  readonly sandbox: OwnSandbox;
  readonly credentials: SandboxCredentials;
  readonly client: ProviderClient;
}

/** Connects a client for each test to the sandbox of the file. */
export function useProvider(
  connect: (credentials: SandboxCredentials) => ProviderClient,
): ProviderUnderTest {
  let client: ProviderClient;
  beforeEach(() => {
    client = connect(credentials);
  });
  afterEach(async () => {
    await client?.close();
    await sandbox?.reset();
  });
  return {
    get sandbox() {
      return sandbox;
    },
    get credentials() {
      return credentials;
    },
    get client() {
      return client;
    },
  };
}

/** Sends a push to addresses at once. */
export function sendTo(
  client: ProviderClient,
  addresses: Parameters<ReturnType<ProviderClient['prepare']>>[0][],
  changes: Partial<ProviderPush> = {},
): Promise<Attempt[]> {
  return Promise.all(addresses.map(client.prepare(createPush(changes), () => true)));
}
