import type { Dev } from '../stack/dev-file.ts';

/** A request that the sandbox's push service got. */
export interface ReceivedPush {
  to: string;
  status: number;
  headers: Record<string, string>;
  /** What the browser said of it: 100 is delivered, 101 that it could not be decrypted. */
  acked?: number;
}

/** What was sent to browsers since the sandbox was started, the oldest first. */
export async function receivedPushes({ sandbox }: Dev): Promise<ReceivedPush[]> {
  const response = await fetch(new URL('/received?channel=web-push', sandbox));
  const { received } = (await response.json()) as { received: ReceivedPush[] };
  return received;
}
