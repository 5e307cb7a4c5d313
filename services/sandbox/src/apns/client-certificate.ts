import type { Http2Session } from 'node:http2';
import type { TLSSocket } from 'node:tls';

/** DER encodings of Apple's extension ids 1.2.840.113635.100.6.3.1 (development) and .2 (production). */
const APPLE_PUSH_OIDS = ['060a2a864886f76364060301', '060a2a864886f76364060302'].map((hex) =>
  Buffer.from(hex, 'hex'),
);

/** State of a connection's client certificate. */
export type ClientCertificate = 'absent' | 'valid' | 'invalid';

/** Checks the client certificate of a connection. */
export function checkClientCertificate(session: Http2Session): ClientCertificate {
  const socket = session.socket as TLSSocket;
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return 'absent';
  const hasApplePushOid = APPLE_PUSH_OIDS.some((oid) => certificate.raw.includes(oid));
  return socket.authorized && hasApplePushOid ? 'valid' : 'invalid';
}
