import { readFileSync } from 'node:fs';
import type { ProviderSecret } from '../../../packages/core/src/channels.ts';
import { parseSealingKeys, seal } from '../../../packages/core/src/sealing.ts';
import type { AppSettings } from '../../../packages/store/src/apps.ts';
import { type CredentialKey, credentialId } from '../../../packages/store/src/credentials.ts';
import { createTestTenant, type TestTenant } from '../api/tenants.ts';
import { openStore, type TestStore } from '../open-store.ts';
import type { StackOptions } from '../stack/env.ts';
import { type Stack, startStack } from '../stack.ts';
import {
  createApnsSecret,
  createFcmSecret,
  openSandbox,
  type Sandbox,
  type SandboxCredentials,
} from './sandbox.ts';

/** A stack with its sandbox and its database. */
export interface ProviderFixture {
  stack: Stack;
  sandbox: Sandbox;
  store: TestStore;
  credentials: SandboxCredentials;
  /** A tenant that can send over every channel, with these settings of its app. */
  tenant(settings?: AppSettings): Promise<TestTenant>;
  /** Keeps a credential of an app as the command line does. */
  saveCredential(credentialKey: CredentialKey, secret: ProviderSecret): Promise<void>;
  close(): Promise<void>;
}

/** Starts a stack without limits. */
export async function openProviderFixture(options: StackOptions = {}): Promise<ProviderFixture> {
  const env = { CARILLON_ADDRESS_LIMITS: 'off', CARILLON_DEMO: '0', ...options.env };
  return openProvidersOf(await startStack({ ...options, env }));
}

/** Opens the sandbox and the database of a stack that runs already; closing them stops it. */
export async function openProvidersOf(stack: Stack): Promise<ProviderFixture> {
  const sandbox = openSandbox(stack.dev.sandbox);
  const store = await openStore({ uri: stack.dev.mongodb, appName: 'test' });
  const credentials = await sandbox.credentials();
  const { credentialKeys } = JSON.parse(readFileSync(`${stack.home}/secrets.json`, 'utf8')) as {
    credentialKeys: string;
  };
  const keys = parseSealingKeys(credentialKeys);

  async function saveCredential(
    credentialKey: CredentialKey,
    secret: ProviderSecret,
  ): Promise<void> {
    const sealed = seal(keys, credentialId(credentialKey), JSON.stringify(secret));
    const { publicKey, contact } = secret as { publicKey?: string; contact?: string };
    await store.credentials.put(credentialKey, sealed, {
      ...(publicKey && { publicKey }),
      ...(contact && { contact }),
    });
    await store.batchTable.retryNow(credentialKey.app, credentialKey.channel);
  }

  return {
    stack,
    sandbox,
    store,
    credentials,
    saveCredential,
    async tenant(settings) {
      const tenant = await createTestTenant(stack, { limit: null });
      const { app } = tenant;
      await Promise.all([
        saveCredential({ app, channel: 'apns' }, createApnsSecret(credentials)),
        saveCredential({ app, channel: 'fcm' }, createFcmSecret(credentials)),
        saveCredential({ app, channel: 'web-push' }, WEB_PUSH_PAIR),
      ]);
      if (settings !== undefined) await store.apps.updateSettings(app, settings);
      return tenant;
    },
    async close() {
      await store.close();
      await stack.stop();
    },
  };
}

/** A key pair made once, for nothing but tests. */
export const WEB_PUSH_PAIR = {
  kind: 'web-push' as const,
  publicKey:
    'BLHVd-Yf55lyZlkKr5ZgWPeC6EEQgnYn7PpfB_o5n0HRWvXCnyQcdyNix_p4BfnQygWIX74tgQgbW3aqjQ6vcts',
  privateKey: 'f67HL8PKb6W0s_Wxbg1uvkqPC6xdRRNH1IIVm_j0tmA',
  contact: 'mailto:test@carillon.dev',
};

/** The same as the pair of a new app: with a contact that Apple refuses. */
export const WEB_PUSH_PAIR_WITHOUT_CONTACT = {
  ...WEB_PUSH_PAIR,
  contact: 'mailto:push@carillon.invalid',
};
