import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { type ApiAnswer, apiRefusal, callApi } from '../api.ts';

/** What a device connects with. */
export const credentials = z.object({
  token: z.string().min(1),
  auth: z.string().min(1),
  /** What its provider knows it by, if it has one. */
  to: z.string().optional(),
});
export type Credentials = z.infer<typeof credentials>;

const TRIES = 10;
const WAIT_SECONDS = 1;
const WAIT_SECONDS_MAX = 60;

/**
 * Registers a new device as the SDKs do. Where the API asks for patience (many devices from one
 * address), it is had.
 *
 * @param registration what the device says: app, platform, and its provider's address
 * @throws Failure when the API refuses or can't be reached
 */
export async function register(
  api: string,
  registration: { appId: string; platform: string },
  signal: AbortSignal,
): Promise<Credentials> {
  const body = JSON.stringify(registration);
  for (let left = TRIES; ; left -= 1) {
    const answer = await callApi(api, { method: 'POST', path: '/register', body });
    if (answer.status === 200) return credentials.parse(JSON.parse(answer.text));
    if (!isTransient(answer) || left === 0) throw apiRefusal(api, answer);
    const seconds = Math.min(answer.retryAfter ?? WAIT_SECONDS, WAIT_SECONDS_MAX);
    await sleep(seconds * 1_000, undefined, { signal });
  }
}

/**
 * Whether the API refuses these credentials, so that the device must register anew. Only a plain no
 * counts: an outage must never look like a refusal.
 *
 * @throws Failure when the API can't be reached
 */
export async function areRefused(api: string, { token, auth }: Credentials): Promise<boolean> {
  const body = JSON.stringify({ token, auth });
  const answer = await callApi(api, { method: 'POST', path: '/devices/auth', body });
  return answer.status >= 400 && answer.status < 500 && !isTransient(answer);
}

function isTransient({ status }: ApiAnswer): boolean {
  return status === 429 || status === 503;
}
