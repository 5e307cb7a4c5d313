import { z } from 'zod';
import { AdminError, invalidCredential } from '../admin-error.ts';
import type { CredentialFile, VerifiedCredential } from '../credentials.ts';
import { findPemBlock, readPrivateKey } from './pem.ts';

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
  const privateKey = readRsaKey(file.name, account.private_key);
  return {
    channel: 'fcm',
    secret: {
      kind: 'fcm',
      projectId: account.project_id,
      clientEmail: account.client_email,
      privateKey,
      ...(account.private_key_id !== undefined && { privateKeyId: account.private_key_id }),
      tokenUri: account.token_uri,
    },
    about: { projectId: account.project_id, clientEmail: account.client_email },
  };
}

/** Returns the key's own block: a delivery worker reads nothing else. */
function readRsaKey(name: string, text: string): string {
  try {
    const pem = findPemBlock(text, /-----BEGIN ((?:RSA )?PRIVATE KEY)-----/)?.pem ?? '';
    if (readPrivateKey(name, pem).asymmetricKeyType === 'rsa') return pem;
  } catch (error) {
    if (error instanceof AdminError) throw error;
  }
  throw invalidCredential(`The private_key in ${name} is not an RSA key.`);
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
