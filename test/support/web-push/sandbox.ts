import type { Dev } from '../stack/dev-file.ts';

/** A request that the sandbox's push service got. */
export interface ReceivedPush {
  to: string;
  status: number;
  headers: Record<string, string>;
  /** Status that the browser returned: 100 for delivered, 101 for not decryptable. */
  acked?: number;
}

/** Returns the messages sent to browsers since the sandbox started, oldest first. */
export async function receivedPushes({ sandbox }: Dev): Promise<ReceivedPush[]> {
  const response = await fetch(new URL('/received?channel=web-push', sandbox));
  const { received } = (await response.json()) as { received: ReceivedPush[] };
  return received;
}
