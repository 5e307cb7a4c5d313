import { createPrivateKey } from 'node:crypto';
import { z } from 'zod';
import { invalidCredential } from '../admin-error.ts';
import type { CredentialFile, VerifiedCredential } from '../credentials.ts';

/** Key file of a service account as Google issues it. */
const serviceAccountSchema = z.object({
  type: z.literal('service_account'),
  project_id: z.string().min(1),
  private_key_id: z.string().optional(),
  private_key: z.string(),
  client_email: z.string().min(1),
  token_uri: z.url({ protocol: /^https$/ }),
});

/**
 * Verifies the key file of a service account for FCM.
 *
 * @throws AdminError INVALID_CREDENTIAL
 */
export function verifyServiceAccount(file: CredentialFile): VerifiedCredential {
  const account = parseKeyFile(file);
  try {
    if (createPrivateKey(account.private_key).asymmetricKeyType !== 'rsa') throw new Error();
  } catch {
    throw invalidCredential(`The private_key in ${file.name} is not an RSA key.`);
  }
  return {
    channel: 'fcm',
    secret: {
      kind: 'fcm',
      projectId: account.project_id,
      clientEmail: account.client_email,
      privateKey: account.private_key,
      ...(account.private_key_id !== undefined && { privateKeyId: account.private_key_id }),
      tokenUri: account.token_uri,
    },
    about: { projectId: account.project_id, clientEmail: account.client_email },
  };
}

function parseKeyFile({ name, content }: CredentialFile): z.infer<typeof serviceAccountSchema> {
  try {
    return serviceAccountSchema.parse(JSON.parse(content.toString('utf8')));
  } catch (error) {
    if (!(error instanceof z.ZodError)) throw invalidCredential(`${name} is not JSON.`);
    const invalidFields = error.issues.map(({ path }) => path.join('.') || 'the whole file');
    throw invalidCredential(
      `${name} is not the key file of a service account; missing or invalid: ${invalidFields.join(', ')}.`,
    );
  }
}
