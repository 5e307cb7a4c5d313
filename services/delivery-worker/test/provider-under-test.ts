import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals';
import type { ProviderClient } from '../src/deliver/provider.ts';
import { type ProviderSandbox, startProviderSandbox } from './provider-sandbox.ts';

/** A provider's sandbox, and the client of the test that runs. */
export interface ProviderUnderTest {
  readonly sandbox: ProviderSandbox;
  readonly client: ProviderClient;
}

/** Starts a sandbox for the tests of a file, and connects a client of its own for each of them. */
export function useProvider(
  connect: (sandbox: ProviderSandbox) => ProviderClient,
): ProviderUnderTest {
  let sandbox: ProviderSandbox;
  let client: ProviderClient;

  beforeAll(async () => {
    sandbox = await startProviderSandbox();
  });
  beforeEach(() => {
    client = connect(sandbox);
  });
  afterEach(async () => {
    await client.close();
    await sandbox.reset();
  });
  afterAll(() => sandbox?.stop());

  return {
    get sandbox() {
      return sandbox;
    },
    get client() {
      return client;
    },
  };
}
