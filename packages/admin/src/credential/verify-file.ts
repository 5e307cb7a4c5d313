import { Worker } from 'node:worker_threads';
import { readCpuMs } from '@carillon/runtime/clock';
import { AdminError, type AdminField, invalidCredential } from '../admin-error.ts';
import type { CredentialFile, VerifiedCredential } from '../credentials.ts';
import type { AppleCertificateOptions } from './apple-certificate.ts';
import type { AppleKeyIds } from './apple-token.ts';

/** A file that an operator provides, with what belongs to its kind. */
export type ProvidedFile =
  | { kind: 'apns-token'; file: CredentialFile; ids: AppleKeyIds }
  | { kind: 'apns-certificate'; file: CredentialFile; options: AppleCertificateOptions }
  | { kind: 'fcm'; file: CredentialFile };

/** Message of the thread to its process. */
export type VerifyResult =
  | { verified: VerifiedCredential }
  | { refusal: { message: string; fields: readonly AdminField[] } };

/** Maximum milliseconds of the check of a file, by the clock and of the process's CPU time: on a busy machine a check gets little. */
export const VERIFY_TIMEOUT_MS = 10_000;
/** Maximum memory for the objects of a thread, in MB. A file of 75 KB takes a few. */
const THREAD_MEMORY_MB = 128;

/**
 * Verifies a file in a thread of its own, which ends at the deadline: the file itself determines how long its key takes to
 * derive. The promise settles when the thread has ended.
 *
 * @throws AdminError INVALID_CREDENTIAL
 */
export async function verifyFile(
  provided: ProvidedFile,
  timeoutMs = VERIFY_TIMEOUT_MS,
): Promise<VerifiedCredential> {
  const { name } = provided.file;
  const worker = new Worker(new URL('./verify-worker.ts', import.meta.url), {
    workerData: provided,
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: THREAD_MEMORY_MB },
  });
  let result: VerifyResult | undefined;
  let failure: NodeJS.ErrnoException | undefined;
  worker.on('message', (message: VerifyResult) => {
    result = message;
  });
  worker.on('error', (error: NodeJS.ErrnoException) => {
    failure = error;
  });
  const cpuMsAtEnd = readCpuMs() + timeoutMs;
  let timer = setTimeout(endIfSlow, timeoutMs);
  function endIfSlow(): void {
    const remainingMs = cpuMsAtEnd - readCpuMs();
    if (remainingMs <= 0) void worker.terminate();
    else timer = setTimeout(endIfSlow, Math.ceil(remainingMs));
  }
  await new Promise((resolve) => worker.once('exit', resolve));
  clearTimeout(timer);
  if (failure !== undefined && failure.code !== 'ERR_WORKER_OUT_OF_MEMORY') throw failure;
  if (result === undefined) {
    throw invalidCredential(
      `${name} takes too long to read. If it is encrypted, export it again with fewer rounds of key derivation.`,
    );
  }
  if ('verified' in result) return result.verified;
  throw new AdminError('INVALID_CREDENTIAL', result.refusal.message, ...result.refusal.fields);
}
