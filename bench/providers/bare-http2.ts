import { type ClientHttp2Session, connect, type OutgoingHttpHeaders } from 'node:http2';

/** Sends a bare request on a session: the floor of the cost of a message. */
export function openBareHttp2(url: string, ca: string) {
  const session = connect(url, { ca });
  session.on('error', (error) => {
    throw error;
  });
  return (headers: OutgoingHttpHeaders, body: string) => sendRequest(session, headers, body);
}

function sendRequest(
  session: ClientHttp2Session,
  headers: OutgoingHttpHeaders,
  body: string,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const stream = session.request(headers);
    let status: number | undefined;
    stream.once('response', (responseHeaders) => {
      status = responseHeaders[':status'];
    });
    stream.once('end', () => {
      if (status === 200) resolve();
      else reject(new Error(`status ${status}`));
    });
    stream.once('error', reject);
    stream.resume();
    stream.end(body);
  });
}
