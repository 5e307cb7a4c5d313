import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { FaultConfig } from '../response/fault-config.ts';
import type { HandleRequest } from '../response/handle-request.ts';
import type { ProviderResponse } from '../response/provider-response.ts';
import { parseJsonObject } from '../transport/jwt.ts';
import { pickHeaders } from '../transport/pick-headers.ts';
import { readBody } from '../transport/read-body.ts';
import { createExchange, type TlsServer } from '../transport/tls-server.ts';
import type { Receiver, Subscriptions } from './subscriptions.ts';
import { createErrorResponse, validatePush } from './validate-push.ts';
import type { VapidVerifier } from './vapid.ts';

const ENDPOINT_PATH = /^\/wpush\/v2\/([\w-]+)$/;
const LOGGED_HEADERS = ['ttl', 'topic', 'urgency', 'content-encoding', 'content-length'] as const;

/** Parts of the simulated push service. */
export interface WebPushState {
  server: TlsServer;
  handleRequest: HandleRequest;
  vapidVerifier: VapidVerifier;
  subscriptions: Subscriptions;
  faultConfig: Readonly<FaultConfig>;
  /** Returns the origin of the service. */
  origin(): string;
}

/** Builds the path of an endpoint. */
export function createEndpointPath(token: string): string {
  return `/wpush/v2/${token}`;
}

/** Finds a response by its status code. */
export function findCannedWebPushResponse(name: string): ProviderResponse | undefined {
  const status = Number(name);
  if (!Number.isInteger(status) || status < 200 || status > 599) return undefined;
  return status < 300
    ? { status, headers: {}, body: '' }
    : createErrorResponse(status, 'As scripted.');
}

/** Handles the requests of application servers as a push service does (RFC 8030). */
export function serveWebPush(webPush: WebPushState): void {
  const { server } = webPush;
  server.http.on('request', (request, response) => {
    const exchange = createExchange(request, response, server.destroyConnection);
    const [path = ''] = (request.url ?? '').split('?');
    const token = ENDPOINT_PATH.exec(path)?.[1];
    readBody(request, (body) => {
      if (token === undefined) return exchange.respond(404, {}, '');
      handlePush(
        webPush,
        { method: request.method, headers: request.headers, token, body },
        exchange,
      );
    });
  });
}

interface IncomingPush {
  method: string | undefined;
  headers: IncomingHttpHeaders;
  token: string;
  body: Buffer;
}

function handlePush(
  { handleRequest, vapidVerifier, subscriptions, faultConfig, origin }: WebPushState,
  { method, headers, token, body }: IncomingPush,
  exchange: Parameters<HandleRequest>[0]['exchange'],
): void {
  const receiver = subscriptions.find(token);
  const payload = decryptPayload(receiver, body);
  const id = randomUUID();
  const checkVapid = (subscriptionKey: string | undefined) =>
    faultConfig.refuseCredential
      ? 'invalid'
      : vapidVerifier.check(headers.authorization, subscriptionKey, faultConfig.checkContact);
  handleRequest({
    token,
    exchange,
    logFields: {
      to: `${origin()}${createEndpointPath(token)}`,
      push: findPushId(payload, headers),
      headers: pickHeaders(headers, LOGGED_HEADERS),
      payload,
    },
    validate: () => {
      const subscriptionKey = typeof receiver === 'object' ? receiver.vapidKey : undefined;
      const location = `${origin()}/m/${id}`;
      return validatePush({
        method,
        headers,
        body,
        receiver,
        vapidError: checkVapid(subscriptionKey),
        location,
      });
    },
    onAccepted: (entry) => {
      if (typeof receiver !== 'object') return;
      const { ttl, topic } = headers;
      receiver.receive({ id, body, ttlSeconds: Number(ttl ?? 0), topic: topic?.toString(), entry });
    },
  });
}

/** Decrypts a push for a simulated browser. @returns JSON text; null when the sandbox lacks the keys */
function decryptPayload(receiver: Receiver | 'gone' | undefined, body: Buffer): string | null {
  const text = typeof receiver === 'object' ? receiver.decrypt?.(body) : undefined;
  if (text === undefined) return null;
  return parseJsonObject(text) === undefined ? JSON.stringify(text) : text;
}

function findPushId(payload: string | null, headers: IncomingHttpHeaders): string | null {
  const inPayload = payload === null ? undefined : parseJsonObject(payload)?._pushyId;
  const found = inPayload ?? headers['x-carillon-push'];
  return typeof found === 'string' ? found : null;
}
