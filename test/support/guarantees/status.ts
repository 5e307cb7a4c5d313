import type { Stack } from '../stack.ts';
import { type PollOptions, until } from '../until.ts';

/** The status of a push, or the code of its refusal. */
export interface PushStatusResponse {
  status: number;
  code?: string;
  push?: {
    date: number;
    payload: unknown;
    expiration: number;
    pending_devices: string[];
  };
}

/** `GET /pushes/<push_id>`. */
export async function getPushStatus(
  stack: Pick<Stack, 'api'>,
  push: { id: string },
): Promise<PushStatusResponse> {
  const { status, json } = await stack.api('GET', `/pushes/${push.id}`);
  return { status, ...json };
}

/** Waits until a push has no status any more. */
export function untilNotPending(
  stack: Pick<Stack, 'api'>,
  push: { id: string },
  pollOptions: PollOptions = {},
): Promise<true> {
  const isGone = async () => (await getPushStatus(stack, push)).code === 'INVALID_PUSH_ID';
  return until(isGone, { what: `push ${push.id} gone`, everyMs: 50, ...pollOptions });
}

/** Waits until a push waits for exactly these devices. */
export function untilPending(
  stack: Pick<Stack, 'api'>,
  push: { id: string },
  tokens: readonly string[],
): Promise<true> {
  const expected = [...tokens].sort().join();
  const isSo = async () => {
    const { push: status } = await getPushStatus(stack, push);
    return status !== undefined && [...status.pending_devices].sort().join() === expected;
  };
  return until(isSo, { what: `push ${push.id} pending for ${expected || 'no device'}` });
}
