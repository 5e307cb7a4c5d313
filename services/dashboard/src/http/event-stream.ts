import type { Request, Response } from 'express';
import type { EventStream } from './route.ts';

const CHECK_INTERVAL_MS = 15_000;
/** Maximum unsent bytes: a client that does not read is cut off, and its browser connects again. */
const MAX_UNSENT_BYTES = 1_048_576;

/** Keeps the event streams of a process. */
export function createEventStreams() {
  const open = new Set<AbortController>();
  return {
    /**
     * Sends a stream until the client leaves, `isValid` returns false, or the process stops. Resolves at its end.
     *
     * @param isValid checks every 15 s whether the session is still valid
     */
    async send(
      request: Request,
      response: Response,
      stream: EventStream,
      isValid: () => Promise<boolean>,
    ): Promise<void> {
      const closing = new AbortController();
      open.add(closing);
      const ended = new Promise<void>((resolve) => response.once('close', resolve));
      request.socket.setTimeout(0);
      response.writeHead(200, {
        'content-type': 'text/event-stream; charset=utf-8',
        // Proxies must pass each event on at once.
        'x-accel-buffering': 'no',
      });
      const write = (text: string): void => {
        if (closing.signal.aborted) return;
        if (response.writableLength > MAX_UNSENT_BYTES) closing.abort();
        else response.write(text);
      };
      const timer = setInterval(() => void keepAlive(write, isValid, closing), CHECK_INTERVAL_MS);
      // The rest of the response can't be sent to a client that does not read.
      closing.signal.addEventListener('abort', () => response.destroy(), { once: true });
      write(': open\n\n');
      stream.open(
        (event, data) => write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`),
        closing.signal,
      );
      await ended;
      clearInterval(timer);
      open.delete(closing);
      closing.abort();
    },
    /** Ends all streams. */
    closeAll(): void {
      for (const closing of open) closing.abort();
    },
  };
}

/** An error of the check ends the stream too: the browser connects again and gets the response then. */
async function keepAlive(
  write: (text: string) => void,
  isValid: () => Promise<boolean>,
  closing: AbortController,
): Promise<void> {
  if (await isValid().catch(() => false)) write(': alive\n\n');
  else closing.abort();
}
