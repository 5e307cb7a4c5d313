import { type ClientHttp2Session, type ClientHttp2Stream, constants } from 'node:http2';
import { readFailure } from './failure.ts';
import type { ApnsAnswer } from './outcome.ts';
import type { Readiness } from './readiness.ts';
import { RequestStream } from './request-stream.ts';
import { watchStream } from './watch-stream.ts';

/** From the request to its answer, connecting included. */
const DEADLINE_MS = 10_000;

/** What the library needs of a session to make a request. */
export interface Requester {
  request(headers: Parameters<ClientHttp2Session['request']>[0]): RequestStream;
}

/** What asking needs. */
export interface Asking {
  session: ClientHttp2Session;
  readiness: Readiness;
  /** Makes the library's request over what it is given. Need not settle. */
  request(over: Requester): Promise<unknown>;
  /** No answer came in time. */
  onSilence(): void;
}

/** What was asked, as the library passes it on. */
export interface Asked {
  answer: ApnsAnswer;
}

/** One request: its answer as seen on the wire, or why there is none. Always resolves, within 10 s. */
export function ask({ session, readiness, request, onSilence }: Asking): Promise<Asked> {
  const { promise, resolve } = Promise.withResolvers<Asked>();
  let isOver = false;
  let stream: ClientHttp2Stream | undefined;
  let shown: RequestStream | undefined;
  let breakOff = fail;

  function end(answer: ApnsAnswer, text?: string): void {
    if (isOver) return;
    isOver = true;
    clearTimeout(deadline);
    if (answer.kind === 'answered' && text !== undefined) shown?.tell(answer.status, text);
    resolve({ answer });
  }
  function fail(failure: unknown): void {
    end(readFailure(failure));
  }
  function giveUp(why: string): void {
    breakOff(new Error(why));
    stream?.close(constants.NGHTTP2_CANCEL);
  }
  const watched: Requester = {
    request(headers) {
      stream = session.request(headers);
      breakOff = watchStream(stream, end, () => giveUp('the answer has no end'));
      shown = new RequestStream(stream);
      return shown;
    },
  };
  function begin(obstacle?: Error): void {
    if (obstacle !== undefined) fail(obstacle);
    // Who asked has been told that it wasn't sent.
    else if (!isOver) request(watched).catch(fail);
  }

  const deadline = setTimeout(() => {
    giveUp('no answer in time');
    onSilence();
  }, DEADLINE_MS);
  const ready = readiness(session);
  if (ready === true) begin();
  else void ready.then(begin);
  return promise;
}
