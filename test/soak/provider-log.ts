import { setTimeout as sleep } from 'node:timers/promises';
import type { ProviderChannelName } from '../../packages/core/src/channels.ts';
import type { Arrival, Refusal } from './history.ts';

/** The sandbox keeps its last 100,000 requests; at hundreds a second they are read in time. */
const READ_EVERY_MS = 5_000;
const READ_AT_ONCE = 20_000;
/** Marks of pushes in their payloads. */
export const MARK = /soak-[ab]-\d+-\d+/;
const ACCEPTED = [200, 201];
/** UNREGISTERED of FCM has 404. */
const GONE = [404, 410];

/** A request that the sandbox has received for a provider. */
interface ProviderRequest {
  n: number;
  channel: ProviderChannelName;
  at: number;
  to: string;
  status: number | null;
  payload: unknown;
}

/** Responses of the providers to requests for devices. */
interface ProviderLog {
  accepted: readonly Arrival[];
  refusals: readonly Refusal[];
  /** Reads the rest, and stops. */
  stop(): Promise<void>;
}

/**
 * Starts reading what the providers respond to requests for devices.
 *
 * @param sandbox base URL
 * @param tokenOf device tokens by the last part of their addresses
 */
export function openProviderLog(
  sandbox: string,
  tokenOf: ReadonlyMap<string, string>,
): ProviderLog {
  const accepted: Arrival[] = [];
  const refusals: Refusal[] = [];
  const stop = followRequests(sandbox, ({ channel, at: atMs, to, status, payload }) => {
    const token = tokenOf.get(lastPart(to)) ?? to;
    const mark = MARK.exec(JSON.stringify(payload))?.[0] ?? 'no mark';
    if (ACCEPTED.includes(status ?? 0))
      accepted.push({ token, mark, atMs, channel, connection: 0 });
    else if (GONE.includes(status ?? 0)) refusals.push({ token, mark, atMs, channel });
  });
  return { accepted, refusals, stop };
}

/** Returns the part of an endpoint that tells subscriptions apart. */
export function lastPart(address: string): string {
  return address.split('/').at(-1) ?? '';
}

/**
 * Starts reading the sandbox's log of requests.
 *
 * @param sandbox base URL
 * @param onRequest called with each request, in their order
 * @returns a function that reads the rest and stops
 */
function followRequests(
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
