import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeError } from '@carillon/admin/admin-error';
import { writeAtomically } from '@carillon/runtime/write-atomically';
import { z } from 'zod';
import { type ApiResponse, callApi, toApiFailure } from '../api-client.ts';
import { commandFailed, isFileNotFound } from '../failure.ts';

/** Credentials that a device connects with. */
export const credentialsSchema = z.object({
  token: z.string().min(1),
  auth: z.string().min(1),
  /** Its address at its provider; absent without a provider. */
  to: z.string().optional(),
});
export type Credentials = z.infer<typeof credentialsSchema>;

const MIN_RETRY_SECONDS = 1;
const MAX_RETRY_SECONDS = 60;

/**
 * Registers a new device as the SDKs do. Retries without limit while the API is rate-limited (429) or unavailable (503).
 *
 * @param registration app, platform and provider address of the device
 * @param onWait called before each wait
 * @throws Failure when the API rejects the device or can't be reached
 */
export async function registerDevice(
  api: string,
  registration: { appId: string; platform: string },
  signal: AbortSignal,
  onWait: (status: number, waitSeconds: number) => void,
): Promise<Credentials> {
  const body = JSON.stringify(registration);
  for (
    let backoffSeconds = MIN_RETRY_SECONDS;
    ;
    backoffSeconds = Math.min(backoffSeconds * 2, MAX_RETRY_SECONDS)
  ) {
    const response = await callApi(api, { method: 'POST', path: '/register', body });
    if (response.status === 200) return credentialsSchema.parse(JSON.parse(response.text));
    if (!isTransient(response)) throw toApiFailure(api, response);
    const waitSeconds = Math.max(response.retryAfterSeconds ?? backoffSeconds, MIN_RETRY_SECONDS);
    onWait(response.status, waitSeconds);
    await sleep(waitSeconds * 1_000, undefined, { signal });
  }
}

/**
 * Returns true when the API rejects these credentials, so that the device must register again. An outage or a rate
 * limit is no rejection.
 *
 * @throws Failure when the API can't be reached
 */
export async function hasRejectedCredentials(
  api: string,
  { token, auth }: Credentials,
): Promise<boolean> {
  const body = JSON.stringify({ token, auth });
  const response = await callApi(api, { method: 'POST', path: '/devices/auth', body });
  return response.status >= 400 && response.status < 500 && !isTransient(response);
}

function isTransient({ status }: ApiResponse): boolean {
  return status === 429 || status === 503;
}

const stateSchema = z.object({
  app: z.string(),
  platform: z.string(),
  devices: z.array(credentialsSchema),
});
type SimulationState = z.infer<typeof stateSchema>;

/**
 * Reads the devices of an earlier simulation; undefined when the file does not exist.
 *
 * @throws Failure when the file has other content, which must not be overwritten
 */
export function readState(path: string): SimulationState | undefined {
  try {
    return stateSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch (error) {
    if (isFileNotFound(error)) return undefined;
    const reason =
      error instanceof z.ZodError
        ? 'it is not a state file of carillon simulate'
        : describeError(error);
    throw commandFailed(`${path} can't be used: ${reason}.`);
  }
}

/** Replaces the state file atomically, readable only by its owner, because it contains credentials. */
export function writeState(path: string, state: SimulationState): void {
  try {
    writeAtomically(path, `${JSON.stringify(state, null, 2)}\n`);
  } catch (error) {
    throw commandFailed(`${path} can't be written: ${describeError(error)}.`);
  }
}
