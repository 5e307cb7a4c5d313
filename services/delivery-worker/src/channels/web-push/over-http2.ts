import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
} from 'node:http2';
import { type Answer, createBeginning } from './answer.ts';
import type { PushRequest } from './over-http1.ts';

const { NGHTTP2_CANCEL, NGHTTP2_REFUSED_STREAM } = constants;
/** The service never began on it (RFC 9113, 6.8 and 8.7). */
const UNPROCESSED = ['ERR_HTTP2_GOAWAY_SESSION', 'ERR_HTTP2_INVALID_SESSION'];

/**
 * Posts over a session of HTTP/2. Never rejects; settles within the deadline.
 *
 * @param onSilence no answer came in time: a dead link would take all that follow with it
 */
export function postOverHttp2(
  session: ClientHttp2Session,
  authority: string,
  { path, headers, body, deadlineMs }: PushRequest,
  onSilence: () => void,
): Promise<Answer> {
  const { promise, resolve } = Promise.withResolvers<Answer>();
  const stream = begin(session, {
    ':method': 'POST',
    ':path': path,
    ':authority': authority,
    ...headers,
  });
  if (typeof stream === 'string') return Promise.resolve({ error: stream, isStale: true });
  let answered: (IncomingHttpHeaders & IncomingHttpStatusHeader) | undefined;
  let failure: string | undefined;
  const beginning = createBeginning();

  const deadline = setTimeout(() => {
    failure = 'ETIMEDOUT';
    stream.close(NGHTTP2_CANCEL);
    onSilence();
  }, deadlineMs);
  stream.on('response', (told) => {
    answered = told;
  });
  stream.on('data', (chunk: Buffer) => {
    if (!beginning.add(chunk)) stream.close(NGHTTP2_CANCEL);
  });
  stream.on('error', (error: NodeJS.ErrnoException) => {
    failure ??= error.code ?? error.message;
  });
  stream.on('close', () => {
    clearTimeout(deadline);
    const status = answered?.[':status'];
    if (answered !== undefined && status !== undefined) {
      resolve({ status, headers: answered, text: beginning.text() });
      return;
    }
    const error = failure ?? 'ECONNRESET';
    const isStale = stream.rstCode === NGHTTP2_REFUSED_STREAM || UNPROCESSED.includes(error);
    resolve({ error, isStale });
  });
  stream.end(body);
  return promise;
}

/** The code of the error if the session takes nothing more. */
function begin(
  session: ClientHttp2Session,
  headers: Record<string, string | number>,
): ClientHttp2Stream | string {
  try {
    return session.request(headers);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  }
}
