import { setTimeout as sleep } from 'node:timers/promises';
import type { ProviderChannelName } from '../../packages/core/src/channels.ts';

/** The sandbox keeps its last 100,000 requests; at hundreds a second they are read in time. */
const READ_EVERY_MS = 5_000;
const READ_AT_ONCE = 20_000;

/** A request that the sandbox has received for a provider. */
export interface ProviderRequest {
  n: number;
  channel: ProviderChannelName;
  at: number;
  to: string;
  status: number | null;
  payload: unknown;
}

/**
 * Starts reading the sandbox's log of requests.
 *
 * @param sandbox base URL
 * @param onRequest called with each request, in their order
 * @returns a function that reads the rest and stops
 */
export function followProviderLog(
  sandbox: string,
  onRequest: (request: ProviderRequest) => void,
): () => Promise<void> {
  let last = 0;
  let isStopped = false;

  async function readNew(): Promise<void> {
    for (;;) {
      const response = await fetch(`${sandbox}/received?after=${last}&limit=${READ_AT_ONCE}`);
      const { received } = (await response.json()) as { received: ProviderRequest[] };
      for (const request of received) onRequest(request);
      last = received.at(-1)?.n ?? last;
      if (received.length < READ_AT_ONCE) return;
    }
  }

  async function follow(): Promise<void> {
    while (!isStopped) {
      // The next reading, or the last, gets what this one could not.
      await readNew().catch(() => undefined);
      await sleep(READ_EVERY_MS);
    }
    await readNew();
  }
  const following = follow();
  return () => {
    isStopped = true;
    return following;
  };
}
