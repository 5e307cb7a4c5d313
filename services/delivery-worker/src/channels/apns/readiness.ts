import type { ClientHttp2Session } from 'node:http2';

/** Tells when a session may carry requests: true when it may, else what comes of it: why it never will, if so. */
export type Readiness = (session: ClientHttp2Session) => true | Promise<Error | undefined>;

/**
 * Until the server's SETTINGS have come, Node takes it that 100 streams are allowed; APNs allows one until it has
 * seen a provider token, and refuses the others. To be asked right after a session was made: it listens from then on.
 */
export function createReadiness(): Readiness {
  const known = new WeakMap<ClientHttp2Session, ReturnType<Readiness>>();
  return (session) => {
    const ready = known.get(session);
    if (ready !== undefined) return ready;
    const coming = settled(session, () => known.set(session, true));
    known.set(session, coming);
    return coming;
  };
}

function settled(session: ClientHttp2Session, isReady: () => void): Promise<Error | undefined> {
  return new Promise((resolve) => {
    let failure: Error | undefined;
    session.once('error', (error: Error) => {
      failure = error;
    });
    session.once('remoteSettings', () => {
      isReady();
      resolve(undefined);
    });
    session.once('close', () => resolve(failure ?? new Error('closed before it was ready')));
  });
}
