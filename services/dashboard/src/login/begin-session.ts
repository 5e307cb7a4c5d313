import { digestToken, newToken } from '@carillon/admin/operators';
import type { OperatorDocument } from '@carillon/store/console-documents';
import type { Store } from '@carillon/store/store';
import type { OpenReply, OpenRequest } from '../http/open-route.ts';
import { ConsoleError, type SessionOperator } from '../http/route.ts';
import { deriveCsrfToken, type SessionReader } from '../http/session-reader.ts';
import type { createKnownBrowsers } from './known-browsers.ts';

/** Begins the session of an operator whose identity is proved. */
export type BeginSession = ReturnType<typeof createBeginSession>;

/** Request that a session begins with. */
type LoginRequest = Pick<OpenRequest<unknown>, 'host' | 'session'>;

/** Facts about the installation that the console's pages show. */
export interface Installation {
  /** Its name, such as production. */
  environment: string;
  /** Address of the HTTP API without a slash at its end; undefined when it is not set. */
  apiUrl: string | undefined;
}

/** A session as the console's pages see it. */
export interface SessionView {
  operator: SessionOperator;
  csrf: string;
  /** Name of the installation, such as production. */
  environment: string;
  /** Address of the HTTP API; absent when it is not set. */
  apiUrl?: string;
}

/** Creates the function that begins sessions: always with a new token, so that no client can have chosen it. */
export function createBeginSession({
  store,
  sessions,
  knownBrowsers,
  installation,
}: {
  store: Pick<Store, 'sessions' | 'operators'>;
  sessions: SessionReader;
  knownBrowsers: ReturnType<typeof createKnownBrowsers>;
  installation: Installation;
}) {
  return async (
    { host, session }: LoginRequest,
    operator: Pick<OperatorDocument, '_id' | 'name' | 'role' | 'accounts' | 'passwordHash'>,
  ): Promise<OpenReply<SessionView>> => {
    const { _id: id, name, role, accounts, passwordHash } = operator;
    const token = newToken();
    const digest = digestToken(token);
    await store.sessions.create(digest, id);
    // After the session exists: a new password or the end of access either finds it, or is found here.
    if (!(await store.operators.noteLogin(id, passwordHash))) {
      await store.sessions.end(digest);
      throw new ConsoleError('UNAUTHENTICATED', 'Your access has changed meanwhile. Log in again.');
    }
    if (session !== undefined) await store.sessions.end(session.digest);
    return {
      body: toSessionView({ id, name, role, accounts }, deriveCsrfToken(token), installation),
      cookies: [sessions.formatCookie(host, token), knownBrowsers.formatCookie(host, id)],
    };
  };
}

/** Returns what the console's pages need to know of their session. */
export function toSessionView(
  operator: SessionOperator,
  csrf: string,
  { environment, apiUrl }: Installation,
): SessionView {
  return { operator, csrf, environment, ...(apiUrl !== undefined && { apiUrl }) };
}
