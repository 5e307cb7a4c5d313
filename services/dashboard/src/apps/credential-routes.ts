import type { Accept } from '@carillon/accept/admit-push';
import { type ProvidedFile, verifyFile } from '@carillon/admin/credential/verify-file';
import { saveWebPush } from '@carillon/admin/credential/web-push';
import {
  type CredentialFile,
  type CredentialView,
  listCredentials,
  removeCredential,
  saveCredential,
} from '@carillon/admin/credentials';
import { withFcmWarning } from '@carillon/admin/fcm-use';
import { PROVIDER_CHANNELS } from '@carillon/core/channels';
import type { SealingKeys } from '@carillon/core/sealing';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import { objectId } from '../http/inputs.ts';
import { ConsoleError, defineRoute } from '../http/route.ts';
import { createAccountOfApp } from './app-routes.ts';
import { createFileChecks } from './file-checks.ts';
import { sendTestPush } from './test-push.ts';

const MAX_BASE64 = 100_000;
const MAX_TEXT = 500;
/** A subscription of Web Push is the longest of the providers' tokens. */
const MAX_DEVICE = 4_096;
const text = z.string().max(MAX_TEXT).optional();
const environment = z.enum(['development', 'production']).optional();
const file = z
  .object({ name: z.string().max(MAX_TEXT), base64: z.base64().max(MAX_BASE64) })
  .transform(
    ({ name, base64 }): CredentialFile => ({ name, content: Buffer.from(base64, 'base64') }),
  )
  .optional();

const credentialFields = z.object({
  app: objectId,
  channel: z.enum(PROVIDER_CHANNELS),
  /** Only for devices of this APNs environment. */
  environment,
  /** APNs: the .p8 file with its ids. */
  key: file,
  keyId: text,
  teamId: text,
  /** APNs: the .p12 or PEM file. */
  certificate: file,
  passphrase: text,
  /** FCM: the JSON file. */
  serviceAccount: file,
  /** Web Push: a pair of one's own, and the contact. */
  publicKey: text,
  privateKey: file,
  contact: text,
  replace: z.boolean().optional(),
});

type CredentialInput = z.infer<typeof credentialFields>;

/**
 * Returns the routes of an app's credentials at providers. Secrets are accepted and never returned.
 *
 * @param webPushContact the deployment's contact for push services
 */
export function credentialRoutes(
  store: Pick<Store, 'apps' | 'credentials' | 'batchTable' | 'devices'>,
  sealingKeys: SealingKeys,
  accept: Accept,
  webPushContact: string | undefined,
) {
  const account = createAccountOfApp(store);
  const inTurn = createFileChecks();
  const auditFacts = <Input extends Pick<CredentialInput, 'environment'>>(input: Input) => ({
    ...(input.environment !== undefined && { environment: input.environment }),
  });
  return [
    defineRoute({
      method: 'get',
      path: '/apps/:app/credentials',
      isPublic: true,
      role: 'viewer',
      account,
      input: z.object({ app: objectId }),
      handle: async ({ input }) => ({
        items: (await listCredentials(store, input.app, webPushContact)).map(toBody),
      }),
    }),
    defineRoute({
      method: 'put',
      path: '/apps/:app/credentials/:channel',
      isPublic: true,
      role: 'admin',
      account,
      input: credentialFields,
      audit: 'credential.set',
      auditFacts,
      handle: async ({ input, operator }) => {
        if (input.channel === 'web-push')
          return toBody(await saveKeyPair(store, sealingKeys, input));
        const provided = toProvidedFile(input);
        const verified = await inTurn(operator.id, () => verifyFile(provided));
        const saved = await saveCredential(store, sealingKeys, withEnvironment(input), verified);
        const isFcm = input.channel === 'fcm';
        return toBody(isFcm ? await withFcmWarning(store, input.app, saved) : saved);
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/apps/:app/credentials/:channel',
      isPublic: true,
      role: 'admin',
      account,
      input: credentialFields.pick({ app: true, channel: true, environment: true }),
      audit: 'credential.remove',
      auditFacts,
      handle: ({ input }) => removeCredential(store, withEnvironment(input)),
    }),
    defineRoute({
      method: 'post',
      path: '/apps/:app/credentials/:channel/test',
      isPublic: true,
      role: 'operator',
      account,
      input: credentialFields
        .pick({ app: true, channel: true })
        .extend({ device: z.string().trim().min(1, 'Give a token.').max(MAX_DEVICE) }),
      audit: 'credential.test',
      handle: ({ input, operator }) =>
        sendTestPush(store, accept, { ...input, operator: operator.name }),
    }),
  ];
}

function saveKeyPair(
  store: Pick<Store, 'apps' | 'credentials' | 'batchTable'>,
  sealingKeys: SealingKeys,
  { app, publicKey, privateKey, contact, replace }: CredentialInput,
): Promise<CredentialView> {
  return saveWebPush(store, sealingKeys, app, {
    ...(publicKey !== undefined && { publicKey }),
    ...(privateKey !== undefined && { privateKey }),
    ...(contact !== undefined && { contact }),
    ...(replace !== undefined && { replace }),
  });
}

/** @throws ConsoleError INVALID_PARAM without a file */
function toProvidedFile({ channel, ...input }: CredentialInput): ProvidedFile {
  const { key, certificate, serviceAccount, keyId, teamId, passphrase } = input;
  if (channel === 'fcm' && serviceAccount !== undefined)
    return { kind: 'fcm', file: serviceAccount };
  if (channel === 'apns' && key !== undefined) {
    const ids = { ...(keyId !== undefined && { keyId }), ...(teamId !== undefined && { teamId }) };
    return { kind: 'apns-token', file: key, ids };
  }
  if (channel === 'apns' && certificate !== undefined) {
    const options = {
      ...(input.environment !== undefined && { environment: input.environment }),
      ...(passphrase !== undefined && { passphrase }),
    };
    return { kind: 'apns-certificate', file: certificate, options };
  }
  const wanted = channel === 'fcm' ? 'serviceAccount' : 'key or certificate';
  throw new ConsoleError('INVALID_PARAM', `The file is missing: give ${wanted}.`);
}

function withEnvironment({
  app,
  channel,
  environment: given,
}: Pick<CredentialInput, 'app' | 'channel' | 'environment'>) {
  return { app, channel, ...(given !== undefined && { environment: given }) };
}

function toBody({ changedAt, refused, ...view }: CredentialView) {
  return {
    ...view,
    changedAt: Date.parse(changedAt),
    ...(refused !== undefined && { refused: { ...refused, at: Date.parse(refused.at) } }),
  };
}
