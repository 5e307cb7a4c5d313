import { randomUUID } from 'node:crypto';
import type { Http2Session, IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import type { FaultConfig } from '../response/fault-config.ts';
import { createRequestHandler, type HandleRequest } from '../response/handle-request.ts';
import type { ProviderResponse } from '../response/provider-response.ts';
import { createHttp2Exchange } from '../transport/exchange.ts';
import { parseJsonObject } from '../transport/jwt.ts';
import { pickHeaders } from '../transport/pick-headers.ts';
import type { ProviderContext } from '../transport/provider-context.ts';
import { readBody } from '../transport/read-body.ts';
import { createTlsServer, type TcpAddress, type TlsServer } from '../transport/tls-server.ts';
import { createProviderTokenVerifier, type ProviderTokenVerifier } from './provider-token.ts';
import { createApnsError, describeReason, findCannedApnsResponse, type Reason } from './reasons.ts';
import { findRejectionReason, parseDeviceToken } from './validate-notification.ts';

const CHANNEL = 'apns';
const LOGGED_HEADERS = [
  'apns-topic',
  'apns-push-type',
  'apns-priority',
  'apns-expiration',
  'apns-collapse-id',
  'apns-id',
] as const;

/** DER encodings of Apple's extension ids 1.2.840.113635.100.6.3.1 (development) and .2 (production). */
const APPLE_PUSH_OIDS = ['060a2a864886f76364060301', '060a2a864886f76364060302'].map((hex) =>
  Buffer.from(hex, 'hex'),
);

/** State of a connection's client certificate. */
type ClientCertificate = 'absent' | 'valid' | 'invalid';

interface ApnsState {
  server: TlsServer;
  handleRequest: HandleRequest;
  tokenVerifier: ProviderTokenVerifier;
  faultConfig: Readonly<FaultConfig>;
  /** Certificates of the connections that have one. */
  certificates: WeakMap<Http2Session, ClientCertificate>;
}

/** Starts the simulated APNs. */
export async function startApns(
  { files, requestLog, scripts, faultConfigs }: ProviderContext,
  address: TcpAddress,
): Promise<{ port: number; stop(): Promise<void> }> {
  const faultConfig = faultConfigs.get(CHANNEL);
  const server = createTlsServer({
    server: files.server,
    ca: files.ca,
    requestCertificate: true,
    allowHttp1: false,
    faultConfig,
    onConnection: () => requestLog.countConnection(CHANNEL),
  });
  const tokenVerifier = createProviderTokenVerifier(files.apnsKey);
  const handleRequest = createRequestHandler({
    channel: CHANNEL,
    scripts,
    requestLog,
    faultConfig,
    findCannedResponse: findCannedApnsResponse,
  });
  const certificates: ApnsState['certificates'] = new WeakMap();
  const apns: ApnsState = { server, handleRequest, tokenVerifier, faultConfig, certificates };
  server.http.on('session', (session) => {
    const certificate = checkClientCertificate(session);
    if (certificate !== 'absent') certificates.set(session, certificate);
  });
  server.http.on('stream', (stream, headers) => {
    readBody(stream, (body) => handleStream(apns, stream, headers, body));
  });
  faultConfigs.subscribe(CHANNEL, {
    streamLimit: server.updateStreamLimit,
    expireTokens: tokenVerifier.expireTokens,
  });
  return { port: await server.listen(address), stop: server.stop };
}

function handleStream(
  apns: ApnsState,
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  body: Buffer,
): void {
  const text = body.toString();
  const payload = parseJsonObject(text);
  const push = payload?._pushyId;
  const token = parseDeviceToken(headers[':path']) ?? '';
  const environment = parseEnvironment(headers[':authority']);
  apns.handleRequest({
    token,
    logFields: {
      to: token,
      push: typeof push === 'string' ? push : null,
      headers: pickHeaders(headers, LOGGED_HEADERS),
      payload: payload === undefined ? null : text,
      ...(environment !== undefined && { environment }),
    },
    exchange: createHttp2Exchange(stream, apns.server.destroyConnection),
    validate: () => {
      const certificate =
        stream.session === undefined ? undefined : apns.certificates.get(stream.session);
      const hasCertificate = certificate === 'valid';
      const reason =
        checkCredential(apns, certificate, headers.authorization) ??
        findRejectionReason({ headers, body, payload, hasCertificate });
      return createResponse(reason, headers['apns-id']?.toString());
    },
  });
}

function checkCredential(
  { tokenVerifier, faultConfig }: ApnsState,
  certificate: ClientCertificate | undefined,
  authorization: string | undefined,
): Reason | undefined {
  if (certificate === 'invalid') return 'BadCertificate';
  if (certificate === 'valid') return faultConfig.refuseCredential ? 'BadCertificate' : undefined;
  if (authorization === undefined) return 'MissingProviderToken';
  return faultConfig.refuseCredential ? 'InvalidProviderToken' : tokenVerifier.check(authorization);
}

/** Creates a response with the request's apns-id, or with a new one. */
function createResponse(reason: Reason | undefined, id = randomUUID() as string): ProviderResponse {
  if (reason === undefined) {
    return { status: 200, headers: { 'apns-id': id }, body: '' };
  }
  const response = createApnsError(reason);
  response.headers['apns-id'] = id;
  return { ...response, detail: describeReason(reason) };
}

/** Reads the Apple environment from the authority; undefined when it is not one of Apple's host names. */
function parseEnvironment(authority: string | undefined): string | undefined {
  if (authority === undefined || !authority.includes('push.apple.com')) return undefined;
  return authority.includes('sandbox') ? 'development' : 'production';
}

/** Checks the client certificate of a connection. */
function checkClientCertificate(session: Http2Session): ClientCertificate {
  const socket = session.socket as TLSSocket;
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return 'absent';
  const hasApplePushOid = APPLE_PUSH_OIDS.some((oid) => certificate.raw.includes(oid));
  return socket.authorized && hasApplePushOid ? 'valid' : 'invalid';
}
