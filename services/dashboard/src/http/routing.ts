import { randomUUID } from 'node:crypto';
import type { Logger } from '@carillon/runtime/logger';
import type { Metrics } from '@carillon/runtime/metrics';
import { createBodyReader, type ReadBody } from '@carillon/runtime/read-body';
import type { AuditEntry } from '@carillon/store/audit';
import type { AuditFacts } from '@carillon/store/console-documents';
import express, { type Request, type RequestHandler, type Response, type Router } from 'express';
import { parseCookies } from './address.ts';
import type { Audited } from './audited.ts';
import { toConsoleError } from './errors.ts';
import type { createEventStreams } from './event-stream.ts';
import type { OpenRoute } from './open-route.ts';
import { readInput } from './read-input.ts';
import {
  ConsoleError,
  type ConsoleRoute,
  EventStream,
  hasRole,
  mayUseAccount,
  notFound,
  type SessionOperator,
} from './route.ts';
import {
  type OpenSession,
  type RequestHeaders,
  requireCsrfToken,
  type SessionReader,
} from './session-reader.ts';
import type { ReadToken } from './token-reader.ts';

const SAFE_METHODS = ['GET', 'HEAD'];
/** Path of the admin API under that of the console's API. */
export const ADMIN_API = '/v1';
/** Maximum body of a route that works without a session, in bytes. A name and two passwords fit. */
const OPEN_BODY_BYTES = 2_048;

type EventStreams = ReturnType<typeof createEventStreams>;

/** Facts of a request for its log line. */
interface RequestFacts {
  requestId: string;
  operator?: string;
  code?: string;
}

type Handler = (request: Request, response: Response, facts: RequestFacts) => Promise<void>;

/** Finds the operator that a request proves to be of, and checks that the operator intends it. */
type Authenticate = (request: Request) => Promise<SessionOperator>;

/**
 * Creates the router of the JSON API: session or token, CSRF, role and account of every route are checked here and
 * nowhere else. Under `/v1` it has the public routes again, which only operator tokens open.
 */
export function createApiRouter(
  openRoutes: readonly OpenRoute[],
  routes: readonly ConsoleRoute[],
  {
    log,
    metrics,
    audited,
    sessions,
    readToken,
    eventStreams,
    onResponse,
  }: {
    log: Logger;
    metrics: Pick<Metrics, 'createHistogram'>;
    audited: Audited;
    sessions: SessionReader;
    readToken: ReadToken;
    eventStreams: EventStreams;
    /** Called after every response. */
    onResponse?: (() => void) | undefined;
  },
): Router {
  const router = express.Router();
  const run = createRunner(log, metrics, onResponse);
  // Colleagues share an address, and each has a session.
  const readBody = createBodyReader({ hasAddressLimits: false });
  const shared = { audited, eventStreams, readBody };
  for (const route of openRoutes)
    router[route.method](route.path, run(handleOpen(route, sessions, readBody)));
  const bySession = authenticateBySession(sessions);
  const byToken = authenticateByToken(readToken);
  for (const route of routes) {
    const { method, path, isPublic } = route;
    router[method](path, run(handleRoute(route, bySession, shared)));
    if (isPublic) router[method](`${ADMIN_API}${path}`, run(handleRoute(route, byToken, shared)));
  }
  router.use(
    run(async () => {
      throw notFound();
    }),
  );
  return router;
}

function authenticateBySession(sessions: SessionReader): Authenticate {
  return async (request) => {
    const session = await requireSession(request, sessions);
    if (!SAFE_METHODS.includes(request.method)) {
      sessions.requireOwnOrigin(readHeaders(request));
      requireCsrfToken(session, request.get('x-csrf-token'));
    }
    return session.operator;
  };
}

/** A browser adds no token by itself, so that no other site can cause the request. */
function authenticateByToken(readToken: ReadToken): Authenticate {
  return async (request) => {
    const operator = await readToken(request.headers.authorization);
    if (operator !== undefined) return operator;
    throw new ConsoleError(
      'UNAUTHENTICATED',
      'The header "Authorization" must be "Bearer", a space and an operator token that has not ended.',
    );
  };
}

function handleRoute(
  route: ConsoleRoute,
  authenticate: Authenticate,
  {
    audited,
    eventStreams,
    readBody,
  }: { audited: Audited; eventStreams: EventStreams; readBody: ReadBody<Request> },
): Handler {
  return async (request, response, facts) => {
    const operator = await authenticate(request);
    facts.operator = operator.id;
    requireRole(route, operator);
    const { fields, bodyText } = await readInput(request, {
      ...{ readBody, operator: operator.id, bodyLimit: route.bodyLimit },
    });
    const input = route.input.parse(fields);
    const account = await findAccount(route, operator, input);
    const { requestId } = facts;
    const idempotencyKey = request.get('idempotency-key');
    const handle = () => route.handle({ input, bodyText, idempotencyKey, operator, requestId });
    const { audit } = route;
    const about = { input, account, requestId };
    const result =
      audit === undefined
        ? await handle()
        : await audited(
            buildEntry(request, { ...route, audit }, operator, about),
            handle,
            resultFacts,
          );
    if (!(result instanceof EventStream)) return sendJson(response, 200, result ?? {});
    // A change of the operator's rights ends the stream as well.
    const isValid = async () =>
      JSON.stringify(await authenticate(request)) === JSON.stringify(operator);
    await eventStreams.send(request, response, result, isValid);
  };
}

function requireRole(route: ConsoleRoute, operator: SessionOperator): void {
  if (!hasRole(operator.role, route.role)) {
    throw new ConsoleError('FORBIDDEN', `This needs the role ${route.role}.`);
  }
  if (route.account === 'installation' && operator.accounts !== 'all') {
    throw new ConsoleError('FORBIDDEN', 'This needs access to all accounts.');
  }
}

/** Returns the account of the route's object, which the operator may use; undefined for routes of no single account. */
async function findAccount(
  route: ConsoleRoute,
  operator: SessionOperator,
  input: unknown,
): Promise<string | undefined> {
  if (typeof route.account === 'string') return undefined;
  const account = await route.account(input);
  if (account === undefined || !mayUseAccount(operator, account)) throw notFound();
  return account;
}

/** Returns the entry of the audit log for a request. */
function buildEntry(
  request: Request,
  route: ConsoleRoute & { audit: string },
  { id, name }: SessionOperator,
  { input, account, requestId }: { input: unknown; account: string | undefined; requestId: string },
): AuditEntry {
  return {
    actor: { id, name },
    action: route.audit,
    ...(account !== undefined && { account }),
    facts: { ...pathFacts(request), ...route.auditFacts?.(input) },
    address: request.ip ?? '',
    requestId,
  };
}

function pathFacts(request: Request): AuditFacts {
  const entries = Object.entries(request.params).map(([name, value]) => [name, String(value)]);
  return Object.fromEntries(entries);
}

/** The id of what an action has created. */
function resultFacts(result: unknown): AuditFacts {
  const { id } = (result ?? {}) as { id?: unknown };
  return typeof id === 'string' ? { id } : {};
}

function handleOpen(
  route: OpenRoute,
  sessions: SessionReader,
  readBody: ReadBody<Request>,
): Handler {
  return async (request, response, facts) => {
    if (route.method === 'post') sessions.requireOwnOrigin(readHeaders(request));
    const session =
      route.session === 'required'
        ? await requireSession(request, sessions)
        : await readSession(request, sessions);
    if (session !== undefined) facts.operator = session.operator.id;
    if (route.session === 'required' && route.method === 'post' && session !== undefined) {
      requireCsrfToken(session, request.get('x-csrf-token'));
    }
    const { fields } = await readInput(request, {
      ...{ readBody, operator: session?.operator.id, bodyLimit: OPEN_BODY_BYTES },
    });
    const closing = new AbortController();
    response.once('close', () => closing.abort());
    const { body, cookies, redirect } = await route.handle({
      input: route.input.parse(fields),
      requestId: facts.requestId,
      address: request.ip ?? '',
      host: request.headers.host ?? '',
      cookies: parseCookies(request.headers.cookie),
      session,
      url: request.originalUrl,
      header: (name) => request.get(name),
      signal: closing.signal,
    });
    if (cookies !== undefined) response.setHeader('set-cookie', cookies);
    if (redirect !== undefined) return void response.writeHead(303, { location: redirect }).end();
    sendJson(response, 200, body ?? {});
  };
}

function readHeaders(request: Request): RequestHeaders {
  const { host = '', cookie, origin } = request.headers;
  return { host, cookie, origin, csrf: request.get('x-csrf-token') };
}

function readSession(request: Request, sessions: SessionReader): Promise<OpenSession | undefined> {
  return sessions.read(readHeaders(request));
}

async function requireSession(request: Request, sessions: SessionReader): Promise<OpenSession> {
  const session = await readSession(request, sessions);
  if (session === undefined) throw new ConsoleError('UNAUTHENTICATED', 'Log in to continue.');
  return session;
}

/** Creates the function that wraps handlers: request id, one error form, one log line, which never has the URL. */
function createRunner(
  log: Logger,
  metrics: Pick<Metrics, 'createHistogram'>,
  onResponse?: () => void,
) {
  const durations = metrics.createHistogram('carillon_console_request_seconds');
  return (handler: Handler): RequestHandler =>
    async (request, response) => {
      const startedAt = performance.now();
      const facts: RequestFacts = { requestId: randomUUID() };
      response.setHeader('x-request-id', facts.requestId);
      try {
        await handler(request, response, facts);
      } catch (thrown) {
        const error = toConsoleError(thrown);
        facts.code = error.code;
        if (error.code === 'INTERNAL' || error.code === 'UNAVAILABLE') {
          log.error({ id: facts.requestId, err: thrown }, 'request failed');
        }
        sendError(response, error, facts.requestId);
      }
      onResponse?.();
      const route =
        request.route === undefined ? 'none' : `${request.method} /api${request.route.path}`;
      const { statusCode } = response;
      const seconds = (performance.now() - startedAt) / 1_000;
      if (!response.hasHeader('x-accel-buffering')) {
        durations.observe(seconds, { route, status: String(statusCode) });
      }
      const ms = Math.round(seconds * 1e5) / 100;
      const { requestId: id, operator, code } = facts;
      log.info({ route, status: statusCode, ms, id, operator, code }, 'request');
    };
}

function sendError(response: Response, error: ConsoleError, requestId: string): void {
  if (response.headersSent) return void response.destroy();
  const { code, status, message, retryAfterSeconds, parameter } = error;
  if (retryAfterSeconds !== undefined) response.setHeader('retry-after', retryAfterSeconds);
  // RFC 9110, 15.5.2
  if (status === 401) response.setHeader('www-authenticate', 'Bearer');
  // The rest of an unread body would be taken for the next request.
  if (!response.req.complete) response.setHeader('connection', 'close');
  sendJson(response, status, { code, error: message, parameter, requestId });
}

function sendJson(response: Response, status: number, body: unknown): void {
  const text = JSON.stringify(body);
  response
    .writeHead(status, {
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'content-length': Buffer.byteLength(text),
    })
    .end(text);
}
