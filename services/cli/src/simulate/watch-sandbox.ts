import { setTimeout as sleep } from 'node:timers/promises';
import { describeError } from '@carillon/admin/admin-error';
import { z } from 'zod';
import { serviceUnreachable } from '../failure.ts';

/** Delay of the next connect after the stream has ended. */
const RETRY_MS = 1_000;
const PAYLOAD_KEY = ',"payload":';

/** Push that a provider accepted for a device. */
export interface SandboxDelivery {
  /** Address of the device at the provider. */
  to: string;
  /** Id of the push; empty when the sandbox could not read it. */
  id: string;
  /** JSON text, unchanged. */
  payload: string;
  receivedAt: Date;
}

const entrySchema = z.object({
  n: z.int(),
  at: z.number(),
  channel: z.string(),
  to: z.string(),
  push: z.string().nullable(),
  status: z.int().nullable(),
});
const fcmMessage = z.object({ data: z.object({ payload: z.string() }) });

/**
 * Streams the pushes that the sandbox receives for all devices, until `signal` aborts. After a reconnect the stream
 * resumes where it was cut.
 *
 * @param onOpen called once the stream is open
 * @throws Failure when the first connect to the sandbox fails
 */
export async function watchSandbox(
  sandbox: string,
  onDelivery: (delivery: SandboxDelivery) => void,
  { signal, onOpen }: { signal: AbortSignal; onOpen: () => void },
): Promise<void> {
  let lastEntry: number | undefined;
  let isFirst = true;
  while (!signal.aborted) {
    try {
      const headers = lastEntry === undefined ? {} : { 'last-event-id': String(lastEntry) };
      const response = await fetch(`${sandbox}/watch`, { headers, signal });
      if (isFirst) onOpen();
      isFirst = false;
      lastEntry ??= 0;
      for await (const data of readServerSentEvents(response)) {
        const entry = entrySchema.parse(JSON.parse(data));
        lastEntry = entry.n;
        reportDelivery(entry, data, onDelivery);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (isFirst) {
        throw serviceUnreachable(
          `The sandbox at ${sandbox} can't be reached: ${describeError(error)}.`,
        );
      }
    }
    await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
  }
}

function reportDelivery(
  { channel, to, push, status, at }: z.infer<typeof entrySchema>,
  data: string,
  onDelivery: (delivery: SandboxDelivery) => void,
): void {
  if (status === null || status < 200 || status > 299) return;
  // The payload is always the last property, and quotes within strings are escaped, so the text is unchanged.
  const payloadText = data.slice(data.indexOf(PAYLOAD_KEY) + PAYLOAD_KEY.length, -1);
  const payload = channel === 'fcm' ? readFcmPayload(payloadText) : payloadText;
  onDelivery({ to, id: push ?? '', payload, receivedAt: new Date(at) });
}

/** Reads the payload of an FCM message, which is a string. */
function readFcmPayload(text: string): string {
  const parsed = fcmMessage.safeParse(JSON.parse(text));
  return parsed.success ? parsed.data.data.payload : text;
}

/** Yields the data of each unnamed event of a stream of Server-Sent Events. */
async function* readServerSentEvents(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of response.body ?? []) {
    rest += decoder.decode(chunk, { stream: true });
    const events = rest.split('\n\n');
    rest = events.pop() ?? '';
    for (const event of events) {
      const lines = event.split('\n');
      const data = lines.find((line) => line.startsWith('data: '));
      const isNamed = lines.some((line) => line.startsWith('event: '));
      if (data !== undefined && !isNamed) yield data.slice('data: '.length);
    }
  }
}
