import { parentPort, workerData } from 'node:worker_threads';
import { AdminError } from '../admin-error.ts';
import type { VerifiedCredential } from '../credentials.ts';
import { verifyAppleCertificate } from './apple-certificate.ts';
import { verifyAppleToken } from './apple-token.ts';
import { verifyServiceAccount } from './firebase.ts';
import type { ProvidedFile, VerifyResult } from './verify-file.ts';

// Entry point of the thread: verifies one file and ends.
const result = verify(workerData as ProvidedFile);
parentPort?.postMessage(result);

function verify(provided: ProvidedFile): VerifyResult {
  try {
    return { verified: verifyByKind(provided) };
  } catch (error) {
    if (error instanceof AdminError)
      return { refusal: { message: error.message, fields: error.fields } };
    // A library has failed at the file, for instance at a certificate for another kind of key.
    return { refusal: { message: `${provided.file.name} can't be read.`, fields: [] } };
  }
}

function verifyByKind(provided: ProvidedFile): VerifiedCredential {
  const { name, content } = provided.file;
  // A buffer arrives as plain bytes.
  const file = { name, content: Buffer.from(content) };
  if (provided.kind === 'apns-token') return verifyAppleToken(file, provided.ids);
  if (provided.kind === 'apns-certificate') return verifyAppleCertificate(file, provided.options);
  return verifyServiceAccount(file);
}
