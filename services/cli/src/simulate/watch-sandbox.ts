import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { reasonOf, unreachable } from '../failure.ts';

const RETRY_MS = 1_000;
const PAYLOAD_KEY = ',"payload":';

/** A push that a provider took for a device. */
export interface Taken {
  /** The provider's name for the device. */
  to: string;
  /** The push's id; empty when it could not be read. */
  id: string;
  /** JSON text as it came. */
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
 * Watches what arrives at the sandbox, over one stream for all devices, until `signal` aborts; what comes while the
 * stream is cut is caught up.
 *
 * @param onOpen called once the stream is there
 * @throws Failure when the sandbox can't be reached at first
 */
export async function watchSandbox(
  sandbox: string,
  onTaken: (taken: Taken) => void,
  { signal, onOpen }: { signal: AbortSignal; onOpen: () => void },
): Promise<void> {
  let last: number | undefined;
  let isFirst = true;
  while (!signal.aborted) {
    try {
      const headers = last === undefined ? {} : { 'last-event-id': String(last) };
      const answer = await fetch(`${sandbox}/watch`, { headers, signal });
      if (isFirst) onOpen();
      isFirst = false;
      last ??= 0;
      for await (const data of eventsOf(answer)) {
        const entry = entrySchema.parse(JSON.parse(data));
        last = entry.n;
        tell(entry, data, onTaken);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (isFirst) {
        throw unreachable(`The sandbox at ${sandbox} can't be reached: ${reasonOf(error)}.`);
      }
    }
    await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
  }
}

function tell(
  { channel, to, push, status, at }: z.infer<typeof entrySchema>,
  data: string,
  onTaken: (taken: Taken) => void,
): void {
  if (status === null || status < 200 || status > 299) return;
  // Always the last key, and in a string its quotes would be escaped: so it comes out as it came.
  const whole = data.slice(data.indexOf(PAYLOAD_KEY) + PAYLOAD_KEY.length, -1);
  const payload = channel === 'fcm' ? payloadOfMessage(whole) : whole;
  onTaken({ to, id: push ?? '', payload, receivedAt: new Date(at) });
}

/** An FCM message carries the payload as a text. */
function payloadOfMessage(text: string): string {
  const read = fcmMessage.safeParse(JSON.parse(text));
  return read.success ? read.data.data.payload : text;
}

/** The data of each unnamed event of a stream of Server-Sent Events. */
async function* eventsOf(answer: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of answer.body ?? []) {
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
