import { createPrivateKey } from 'node:crypto';
import { z } from 'zod';
import { refused } from '../failure.ts';
import { type Checked, readGiven } from './checked.ts';

/** A service account's key file as Google hands it out. */
const serviceAccount = z.object({
  type: z.literal('service_account'),
  project_id: z.string().min(1),
  private_key_id: z.string().optional(),
  private_key: z.string(),
  client_email: z.string().min(1),
  token_uri: z.url({ protocol: /^https$/ }),
});

/**
 * Checks a service account's key file for FCM.
 *
 * @throws Failure with the reason why it can't work
 */
export function checkServiceAccount(path: string): Checked {
  return serviceAccountOf(path, readGiven(path).toString('utf8'));
}

/** The same for a file that is read already; `path` says where it came from. @throws Failure */
export function serviceAccountOf(path: string, text: string): Checked {
  const account = parse(path, text);
  try {
    if (createPrivateKey(account.private_key).asymmetricKeyType !== 'rsa') throw new Error();
  } catch {
    throw refused(`The private_key in ${path} is no RSA key.`);
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

function parse(path: string, text: string): z.infer<typeof serviceAccount> {
  try {
    return serviceAccount.parse(JSON.parse(text));
  } catch (error) {
    if (!(error instanceof z.ZodError)) throw refused(`${path} is not JSON.`);
    const wrong = error.issues.map(({ path: at }) => at.join('.') || 'all of it');
    throw refused(
      `${path} is no service account's key file; missing or wrong: ${wrong.join(', ')}.`,
    );
  }
}
