import type { VerifiedCredential } from '../credentials.ts';
import { verifyAppleCertificate } from './apple-certificate.ts';
import { verifyAppleToken } from './apple-token.ts';
import { verifyServiceAccount } from './firebase.ts';
import type { ProvidedFile } from './verify-file.ts';

/**
 * Verifies a file at once, for as long as that takes: services use `verifyFile`, which has a deadline.
 *
 * @throws AdminError INVALID_CREDENTIAL
 */
export function verifyProvided(provided: ProvidedFile): VerifiedCredential {
  const { name, content } = provided.file;
  // A buffer arrives in a thread as plain bytes.
  const file = { name, content: Buffer.from(content) };
  if (provided.kind === 'apns-token') return verifyAppleToken(file, provided.ids);
  if (provided.kind === 'apns-certificate') return verifyAppleCertificate(file, provided.options);
  return verifyServiceAccount(file);
}
