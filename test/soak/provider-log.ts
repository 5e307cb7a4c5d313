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

/** Returns the part of an endpoint that tells subscriptions apart. */
export function lastPart(address: string): string {
  return address.split('/').at(-1) ?? '';
}

/**
 * Starts reading what the providers respond to requests for devices, in their order.
 *
 * @param sandbox base URL
 * @param tokenOf device tokens by the last part of their addresses
 */
export function openProviderLog(sandbox: string, tokenOf: ReadonlyMap<string, string>) {
  const accepted: Arrival[] = [];
  const refusals: Refusal[] = [];
  let last = 0;
  let isStopped = false;

  function record({ channel, at: atMs, to, status, payload }: ProviderRequest): void {
    const token = tokenOf.get(lastPart(to)) ?? to;
    const mark = MARK.exec(JSON.stringify(payload))?.[0] ?? 'no mark';
    if (ACCEPTED.includes(status ?? 0))
      accepted.push({ token, mark, atMs, channel, connection: 0 });
    else if (GONE.includes(status ?? 0)) refusals.push({ token, mark, atMs, channel });
  }

  async function readNew(): Promise<void> {
    for (let isMore = true; isMore; ) {
      const response = await fetch(`${sandbox}/received?after=${last}&limit=${READ_AT_ONCE}`);
      const { received } = (await response.json()) as { received: ProviderRequest[] };
      for (const request of received) record(request);
      last = received.at(-1)?.n ?? last;
      isMore = received.length === READ_AT_ONCE;
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
  return {
    accepted,
    refusals,
    /** Reads the rest, and stops. */
    stop() {
      isStopped = true;
      return following;
    },
  };
}
