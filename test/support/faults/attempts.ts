import { randomUUID } from 'node:crypto';
import type { Stack } from '../stack.ts';
import type { SentPush } from './pushes.ts';

/** Result of a request to send during a fault; `startedAt` is by the monotonic clock (`performance.now()`). */
export type Attempt = { mark: string; payload: string; startedAt: number } & (
  | { isAccepted: true; push: SentPush; tookMs: number }
  /** A 5xx or a cut connection: the push is there or it is not (guarantee G2). */
  | { isAccepted: false; status?: number; error?: string; tookMs: number }
);

/**
 * Tries to send. @throws on a response that means neither accepted nor unknown: an outage must not look like the
 * sender's mistake.
 */
export async function attemptPush(
  stack: Pick<Stack, 'api'>,
  to: string | readonly string[],
  fields: Record<string, unknown> = {},
): Promise<Attempt> {
  const data = { mark: randomUUID() };
  const startedAt = performance.now();
  const sent = { mark: data.mark, payload: JSON.stringify(data), startedAt };
  const tookMs = () => performance.now() - startedAt;
  try {
    const response = await stack.api<PushResponse>('POST', '/push', { to, data, ...fields });
    if (response.status >= 500) {
      return { ...sent, isAccepted: false, status: response.status, tookMs: tookMs() };
    }
    if (response.status !== 200)
      throw new UnexpectedResponse(`push: ${response.status} ${response.text}`);
    const { id, info } = response.json;
    const push = { id, payload: sent.payload, devices: info.devices };
    return { ...sent, isAccepted: true, push, tookMs: tookMs() };
  } catch (error) {
    if (error instanceof UnexpectedResponse) throw error;
    return { ...sent, isAccepted: false, error: describeCause(error), tookMs: tookMs() };
  }
}

/** `fetch` keeps what happened to the connection in the cause. Its errors are of another realm than a test's `Error`. */
function describeCause(error: unknown): string {
  const cause = typeof error === 'object' && error !== null && Reflect.get(error, 'cause');
  return String(cause || error);
}

interface PushResponse {
  id: string;
  info: { devices: number };
}

class UnexpectedResponse extends Error {}
