import { createSign } from 'node:crypto';
import { type ClientHttp2Session, connect, type IncomingHttpHeaders } from 'node:http2';
import type { Sandbox } from '../src/sandbox.ts';

/** A device token that the sandbox accepts. */
export const TOKEN = 'ab'.repeat(32);

/** A client of the simulated APNs without retries. */
export function createApnsClient({ credentials: { apns, ca } }: Pick<Sandbox, 'credentials'>) {
  const sessions: ClientHttp2Session[] = [];

  function createBearerToken(): string {
    const { key, keyId, teamId } = apns;
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const iat = Math.floor(Date.now() / 1_000);
    const signed = `${part({ alg: 'ES256', kid: keyId })}.${part({ iss: teamId, iat })}`;
    const signer = createSign('sha256').update(signed);
    return `bearer ${signed}.${signer.sign({ key, dsaEncoding: 'ieee-p1363' }, 'base64url')}`;
  }

  /** Sends a push. @returns the headers of the response; undefined when the stream ends without one */
  function request(session: ClientHttp2Session, push = 'p') {
    const stream = session.request({
      ':method': 'POST',
      ':path': `/3/device/${TOKEN}`,
      authorization: createBearerToken(),
      'apns-topic': apns.bundle,
      'apns-push-type': 'alert',
    });
    stream.end(JSON.stringify({ aps: {}, _pushyId: push }));
    return new Promise<IncomingHttpHeaders | undefined>((resolve) => {
      stream.on('response', resolve);
      stream.on('error', () => undefined).on('close', () => resolve(undefined));
      stream.resume();
    });
  }

  return {
    openSession: (): ClientHttp2Session => {
      const session = connect(`https://${apns.host}:${apns.port}`, { ca });
      sessions.push(session.on('error', () => undefined));
      return session;
    },
    request,
    /** Sends a push. @returns the status; undefined when the stream ends without a response */
    send: async (session: ClientHttp2Session, push?: string): Promise<number | undefined> => {
      const headers = await request(session, push);
      return headers === undefined ? undefined : Number(headers[':status']);
    },
    closeSessions: (): void => {
      for (const session of sessions.splice(0)) session.destroy();
    },
  };
}
