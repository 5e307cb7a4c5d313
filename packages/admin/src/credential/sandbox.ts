import type { SealingKeys } from '@carillon/core/sealing';
import type { CredentialDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import { AdminError, describeError } from '../admin-error.ts';
import { type CredentialView, saveCredential, type VerifiedCredential } from '../credentials.ts';
import { requireApp } from '../require-app.ts';
import { verifyAppleToken } from './apple-token.ts';
import { verifyServiceAccount } from './firebase.ts';

/** Timeout of a request to the sandbox, in milliseconds. */
const TIMEOUT_MS = 10_000;

const endpointSchema = z.object({ host: z.string(), port: z.int() });
const sandboxResponse = z.object({
  ca: z.string(),
  apns: endpointSchema.extend({ key: z.string(), keyId: z.string(), teamId: z.string() }),
  fcm: endpointSchema.extend({ serviceAccount: z.looseObject({}) }),
});

interface SandboxCredential {
  verified: VerifiedCredential;
  gateway: { host: string; port: number; ca: string };
}

/**
 * Saves the sandbox's credentials for APNs and FCM, except where the app has a credential of the real provider.
 *
 * @param sandbox base URL of the sandbox's control API
 * @returns the credentials that were saved
 * @throws AdminError APP_NOT_FOUND, SANDBOX_UNREACHABLE
 */
export async function saveSandboxCredentials(
  store: Pick<Store, 'apps' | 'credentials' | 'batchTable'>,
  keys: SealingKeys,
  app: string,
  sandbox: string,
): Promise<CredentialView[]> {
  const available = await fetchSandboxCredentials(sandbox);
  await requireApp(store, app);
  const current = await store.credentials.list(app);
  const selected = available.filter((offer) => canReplace(current, offer));
  return Promise.all(
    selected.map(({ verified, gateway }) =>
      saveCredential(store, keys, { app, channel: verified.channel }, verified, gateway),
    ),
  );
}

async function fetchSandboxCredentials(sandbox: string): Promise<SandboxCredential[]> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(`${sandbox}/credentials`, { signal });
    const { ca, apns, fcm } = sandboxResponse.parse(await response.json());
    const key = { name: "the sandbox's key", content: Buffer.from(apns.key) };
    const account = {
      name: "the sandbox's service account",
      content: Buffer.from(JSON.stringify(fcm.serviceAccount)),
    };
    return [
      {
        verified: verifyAppleToken(key, apns),
        gateway: { host: apns.host, port: apns.port, ca },
      },
      {
        verified: verifyServiceAccount(account),
        gateway: { host: fcm.host, port: fcm.port, ca },
      },
    ];
  } catch (error) {
    throw new AdminError(
      'SANDBOX_UNREACHABLE',
      `The sandbox at ${sandbox} can't be used: ${describeError(error)}.`,
    );
  }
}

/** Returns true unless the app sends to the real provider or already has this sandbox's credential. */
function canReplace(
  current: readonly CredentialDocument[],
  { verified, gateway }: SandboxCredential,
): boolean {
  const existing = current.find(({ channel }) => channel === verified.channel);
  if (existing === undefined) return true;
  const currentGateway = existing.about.gateway;
  return currentGateway !== undefined && currentGateway !== `${gateway.host}:${gateway.port}`;
}
