import type { Http2Session } from 'node:http2';
import type { TLSSocket } from 'node:tls';

/** The DER of Apple's marks 1.2.840.113635.100.6.3.1 (development) and .2 (production). */
const MARKS = ['060a2a864886f76364060301', '060a2a864886f76364060302'].map((hex) =>
  Buffer.from(hex, 'hex'),
);

/** What a connection's client certificate is worth; `absent`: there is none. */
export type ClientCertificate = 'absent' | 'good' | 'bad';

/** Looks at the certificate with which a client has opened its connection. */
export function clientCertificateOf(session: Http2Session): ClientCertificate {
  const socket = session.socket as TLSSocket;
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return 'absent';
  const isMarked = MARKS.some((mark) => certificate.raw.includes(mark));
  return socket.authorized && isMarked ? 'good' : 'bad';
}
