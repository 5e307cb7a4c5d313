import { type ClientHttp2Session, type ClientHttp2Stream, constants } from 'node:http2';
import { readFailure } from './failure.ts';
import type { ApnsAnswer } from './outcome.ts';
import type { Readiness } from './readiness.ts';
import { watchStream } from './watch-stream.ts';

/** From the request to its answer, connecting included. */
const DEADLINE_MS = 10_000;

/** What asking needs. */
export interface Asking {
  session: ClientHttp2Session;
  readiness: Readiness;
  /** Names and values in turns. */
  headers: string[];
  body: string;
  /** No answer came in time. */
  onSilence(session: ClientHttp2Session): void;
}

/** One request: its answer as seen on the wire, or why there is none. Always resolves, within 10 s. */
export function ask({ session, readiness, headers, body, onSilence }: Asking): Promise<ApnsAnswer> {
  const { promise, resolve } = Promise.withResolvers<ApnsAnswer>();
  let isOver = false;
  let stream: ClientHttp2Stream | undefined;
  let breakOff = fail;

  function end(answer: ApnsAnswer): void {
    if (isOver) return;
    isOver = true;
    clearTimeout(deadline);
    resolve(answer);
  }
  function fail(failure: unknown): void {
    end(readFailure(failure));
  }
  function giveUp(why: string): void {
    breakOff(new Error(why));
    stream?.close(constants.NGHTTP2_CANCEL);
  }
  function begin(obstacle?: Error): void {
    if (obstacle !== undefined) fail(obstacle);
    // Who asked has been told that it wasn't sent.
    if (isOver) return;
    try {
      stream = session.request(headers);
    } catch (error) {
      fail(error);
      return;
    }
    breakOff = watchStream(stream, end, () => giveUp('the answer has no end'));
    stream.end(body);
  }

  const deadline = setTimeout(() => {
    giveUp('no answer in time');
    onSilence(session);
  }, DEADLINE_MS);
  const ready = readiness(session);
  if (ready === true) begin();
  else void ready.then(begin);
  return promise;
}
