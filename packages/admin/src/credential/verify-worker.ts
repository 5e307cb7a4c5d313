import { parentPort, workerData } from 'node:worker_threads';
import { AdminError } from '../admin-error.ts';
import type { ProvidedFile, VerifyResult } from './verify-file.ts';
import { verifyProvided } from './verify-provided.ts';

// Entry point of the thread: verifies one file and ends.
const result = verify(workerData as ProvidedFile);
parentPort?.postMessage(result);

function verify(provided: ProvidedFile): VerifyResult {
  try {
    return { verified: verifyProvided(provided) };
  } catch (error) {
    if (error instanceof AdminError)
      return { refusal: { message: error.message, fields: error.fields } };
    // A library has failed at the file, for instance at a certificate for another kind of key.
    return { refusal: { message: `${provided.file.name} can't be read.`, fields: [] } };
  }
}
