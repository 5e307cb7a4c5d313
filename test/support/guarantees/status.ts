import type { Stack } from '../stack.ts';
import { type Patience, until } from '../until.ts';

/** The status of a push, or the code of its refusal. */
export interface Status {
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
export async function statusOf(stack: Pick<Stack, 'api'>, push: { id: string }): Promise<Status> {
  const { status, json } = await stack.api('GET', `/pushes/${push.id}`);
  return { status, ...json };
}

/** Waits until a push can't be asked for any more. */
export function untilGone(
  stack: Pick<Stack, 'api'>,
  push: { id: string },
  patience: Patience = {},
): Promise<true> {
  const isGone = async () => (await statusOf(stack, push)).code === 'INVALID_PUSH_ID';
  return until(isGone, { what: `push ${push.id} gone`, everyMs: 50, ...patience });
}

/** Waits until a push waits for exactly these devices. */
export function untilPending(
  stack: Pick<Stack, 'api'>,
  push: { id: string },
  tokens: readonly string[],
): Promise<true> {
  const wanted = [...tokens].sort().join();
  const isSo = async () => {
    const { push: status } = await statusOf(stack, push);
    return status !== undefined && [...status.pending_devices].sort().join() === wanted;
  };
  return until(isSo, { what: `push ${push.id} pending for ${wanted || 'nobody'}` });
}
