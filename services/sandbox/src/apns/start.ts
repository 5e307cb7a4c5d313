import { randomUUID } from 'node:crypto';
import type { Http2Session, IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import type { Conduct } from '../answer/conduct.ts';
import { createMeet, type Meet } from '../answer/meet.ts';
import type { Verdict } from '../answer/verdict.ts';
import { readBody } from '../wire/body.ts';
import { overHttp2 } from '../wire/exchange.ts';
import { readObject } from '../wire/jwt.ts';
import { pickHeaders } from '../wire/pick-headers.ts';
import type { Shared } from '../wire/shared.ts';
import { type At, createTlsServer, type TlsServer } from '../wire/tls-server.ts';
import { type ClientCertificate, clientCertificateOf } from './client-certificate.ts';
import { faultOf, tokenIn } from './judge.ts';
import { createProviderTokens, type ProviderTokens } from './provider-token.ts';
import { apnsAnswer, namedApns, type Reason } from './reasons.ts';

const CHANNEL = 'apns';
const SHOWN_HEADERS = [
  'apns-topic',
  'apns-push-type',
  'apns-priority',
  'apns-expiration',
  'apns-collapse-id',
  'apns-id',
] as const;

interface Apns {
  server: TlsServer;
  meet: Meet;
  tokens: ProviderTokens;
  conduct: Readonly<Conduct>;
  /** Of connections that were opened with one. */
  certificates: WeakMap<Http2Session, ClientCertificate>;
}

/** Starts what plays APNs. */
export async function startApns(
  { files, journal, scripts, conducts }: Shared,
  at: At,
): Promise<{ port: number; stop(): Promise<void> }> {
  const conduct = conducts.of(CHANNEL);
  const server = createTlsServer({
    server: files.server,
    ca: files.ca,
    askCertificate: true,
    allowHttp1: false,
    conduct,
    onConnection: () => journal.connected(CHANNEL),
  });
  const tokens = createProviderTokens(files.apnsKey);
  const meet = createMeet({ channel: CHANNEL, scripts, journal, conduct, named: namedApns });
  const certificates: Apns['certificates'] = new WeakMap();
  const apns: Apns = { server, meet, tokens, conduct, certificates };
  server.http.on('session', (session) => {
    const certificate = clientCertificateOf(session);
    if (certificate !== 'absent') certificates.set(session, certificate);
  });
  server.http.on('stream', (stream, headers) => {
    readBody(stream, (body) => receive(apns, stream, headers, body));
  });
  conducts.listen(CHANNEL, { streamLimit: server.limitStreams, expireTokens: tokens.expire });
  return { port: await server.listen(at), stop: server.stop };
}

function receive(
  apns: Apns,
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  body: Buffer,
): void {
  const text = body.toString();
  const payload = readObject(text);
  const push = payload?._pushyId;
  const token = tokenIn(headers[':path']) ?? '';
  const environment = environmentOf(headers[':authority']);
  apns.meet({
    token,
    asked: {
      to: token,
      push: typeof push === 'string' ? push : null,
      headers: pickHeaders(headers, SHOWN_HEADERS),
      payload: payload === undefined ? null : text,
      ...(environment !== undefined && { environment }),
    },
    exchange: overHttp2(stream, apns.server.cut),
    judge: () => {
      const certificate =
        stream.session === undefined ? undefined : apns.certificates.get(stream.session);
      const hasCertificate = certificate === 'good';
      const reason =
        credentialFault(apns, certificate, headers.authorization) ??
        faultOf({ headers, body, payload, hasCertificate });
      return answer(reason, headers['apns-id']?.toString());
    },
  });
}

function credentialFault(
  { tokens, conduct }: Apns,
  certificate: ClientCertificate | undefined,
  authorization: string | undefined,
): Reason | undefined {
  if (certificate === 'bad') return 'BadCertificate';
  if (certificate === 'good') return conduct.refuseCredential ? 'BadCertificate' : undefined;
  if (authorization === undefined) return 'MissingProviderToken';
  return conduct.refuseCredential ? 'InvalidProviderToken' : tokens.check(authorization);
}

/** Apple's answers carry the id that the request gave, or one of its own. */
function answer(reason: Reason | undefined, id = randomUUID() as string): Verdict {
  if (reason === undefined) {
    return { status: 200, headers: { 'apns-id': id }, body: '' };
  }
  const verdict = apnsAnswer(reason);
  verdict.headers['apns-id'] = id;
  return verdict;
}

/** Only clients that were told Apple's own host names say which environment they mean. */
function environmentOf(authority: string | undefined): string | undefined {
  if (authority === undefined || !authority.includes('push.apple.com')) return undefined;
  return authority.includes('sandbox') ? 'development' : 'production';
}
