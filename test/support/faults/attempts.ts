import { randomUUID } from 'node:crypto';
import type { Stack } from '../stack.ts';
import type { SentPush } from './pushes.ts';

/** What became of a request to send while something was broken. */
export type Attempt = { mark: string; payload: string } & (
  | { isAccepted: true; push: SentPush; tookMs: number }
  /** A 5xx or a cut connection: the push is there or it is not (guarantee G2). */
  | { isAccepted: false; status?: number; error?: string; tookMs: number }
);

/**
 * Tries to send. @throws on an answer that says neither yes nor "unknown": an outage must not look like the
 * sender's mistake.
 */
export async function attemptPush(
  stack: Pick<Stack, 'api'>,
  to: string | readonly string[],
  fields: Record<string, unknown> = {},
): Promise<Attempt> {
  const data = { mark: randomUUID() };
  const sent = { mark: data.mark, payload: JSON.stringify(data) };
  const before = performance.now();
  const tookMs = () => performance.now() - before;
  try {
    const answer = await stack.api<Answer>('POST', '/push', { to, data, ...fields });
    if (answer.status >= 500) {
      return { ...sent, isAccepted: false, status: answer.status, tookMs: tookMs() };
    }
    if (answer.status !== 200) throw new Unexpected(`push: ${answer.status} ${answer.text}`);
    const { id, info } = answer.json;
    const push = { id, payload: sent.payload, devices: info.devices };
    return { ...sent, isAccepted: true, push, tookMs: tookMs() };
  } catch (error) {
    if (error instanceof Unexpected) throw error;
    return { ...sent, isAccepted: false, error: reasonOf(error), tookMs: tookMs() };
  }
}

/** `fetch` keeps what happened to the connection in the cause. */
function reasonOf(error: unknown): string {
  return String(error instanceof Error ? (error.cause ?? error) : error);
}

interface Answer {
  id: string;
  info: { devices: number };
}

class Unexpected extends Error {}
