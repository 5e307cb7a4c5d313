import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Conduct } from '../answer/conduct.ts';
import type { Meet } from '../answer/meet.ts';
import type { Verdict } from '../answer/verdict.ts';
import { readBody } from '../wire/body.ts';
import { readObject } from '../wire/jwt.ts';
import { pickHeaders } from '../wire/pick-headers.ts';
import { exchangeOf, type TlsServer } from '../wire/tls-server.ts';
import { judge, refusal } from './judge.ts';
import type { Receiver, Subscriptions } from './subscriptions.ts';
import type { Vapid } from './vapid.ts';

const PATH = /^\/wpush\/v2\/([\w-]+)$/;
const SHOWN_HEADERS = ['ttl', 'topic', 'urgency', 'content-encoding', 'content-length'] as const;

/** What the push service needs. */
export interface WebPushDeps {
  server: TlsServer;
  meet: Meet;
  vapid: Vapid;
  subscriptions: Subscriptions;
  conduct: Readonly<Conduct>;
  /** The service's own origin. */
  origin(): string;
}

/** The path of an endpoint. */
export function endpointPath(token: string): string {
  return `/wpush/v2/${token}`;
}

/** Answers of a push service by their status. */
export function namedWebPush(name: string): Verdict | undefined {
  const status = Number(name);
  if (!Number.isInteger(status) || status < 200 || status > 599) return undefined;
  return status < 300 ? { status, headers: {}, body: '' } : refusal(status, 'As scripted.');
}

/** Plays a push service (RFC 8030) on a server. */
export function playWebPush(deps: WebPushDeps): void {
  const { server } = deps;
  server.http.on('request', (request, response) => {
    const exchange = exchangeOf(request, response, server.cut);
    const [path = ''] = (request.url ?? '').split('?');
    const token = PATH.exec(path)?.[1];
    readBody(request, (body) => {
      if (token === undefined) return exchange.answer(404, {}, '');
      meetPush(deps, { method: request.method, headers: request.headers, token, body }, exchange);
    });
  });
}

interface Came {
  method: string | undefined;
  headers: IncomingHttpHeaders;
  token: string;
  body: Buffer;
}

function meetPush(
  { meet, vapid, subscriptions, conduct, origin }: WebPushDeps,
  { method, headers, token, body }: Came,
  exchange: Parameters<Meet>[0]['exchange'],
): void {
  const receiver = subscriptions.find(token);
  const payload = readPayload(receiver, body);
  const id = randomUUID();
  const fault = (boundTo: string | undefined) =>
    conduct.refuseCredential ? 'wrong' : vapid.check(headers.authorization, boundTo);
  meet({
    token,
    exchange,
    asked: {
      to: `${origin()}${endpointPath(token)}`,
      push: pushIdOf(payload, headers),
      headers: pickHeaders(headers, SHOWN_HEADERS),
      payload,
    },
    judge: () => {
      const boundTo = typeof receiver === 'object' ? receiver.vapidKey : undefined;
      const location = `${origin()}/m/${id}`;
      return judge({ method, headers, body, receiver, vapidFault: fault(boundTo), location });
    },
    onAccepted: (entry) => {
      if (typeof receiver !== 'object') return;
      const { ttl, topic } = headers;
      receiver.receive({ id, body, ttlSeconds: Number(ttl ?? 0), topic: topic?.toString(), entry });
    },
  });
}

/** The text of a push for a browser whose keys are here; JSON text, or null. */
function readPayload(receiver: Receiver | 'gone' | undefined, body: Buffer): string | null {
  const text = typeof receiver === 'object' ? receiver.read?.(body) : undefined;
  if (text === undefined) return null;
  return readObject(text) === undefined ? JSON.stringify(text) : text;
}

function pushIdOf(payload: string | null, headers: IncomingHttpHeaders): string | null {
  const inPayload = payload === null ? undefined : readObject(payload)?._pushyId;
  const found = inPayload ?? headers['x-carillon-push'];
  return typeof found === 'string' ? found : null;
}
