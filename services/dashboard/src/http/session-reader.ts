import { createHmac, timingSafeEqual } from 'node:crypto';
import { digestToken } from '@carillon/admin/operators';
import { SESSION_MAX_AGE_MS } from '@carillon/store/sessions';
import type { Store } from '@carillon/store/store';
import { type ConsoleAddress, formatCookie, parseCookies } from './address.ts';
import { ConsoleError, type SessionOperator } from './route.ts';

/** A session of a request. */
export interface OpenSession {
  operator: SessionOperator;
  /** SHA-256 of its token. */
  digest: Buffer;
  /** Token that a request must carry to change something. */
  csrf: string;
}

/** The headers of a request that sessions depend on. */
export interface RequestHeaders {
  host: string;
  cookie: string | undefined;
  origin: string | undefined;
  csrf: string | undefined;
}

export type SessionReader = ReturnType<typeof createSessionReader>;

const COOKIE = 'session';
const TOKEN = /^[\w-]{43}$/;

/** Creates the reader of sessions and writer of their cookies. */
export function createSessionReader(
  { sessions }: Pick<Store, 'sessions'>,
  address: ConsoleAddress,
) {
  const { isSecure } = address;
  return {
    /** Finds the session of a request's cookie; undefined when there is none or it has ended. */
    async read({ host, cookie }: Pick<RequestHeaders, 'host' | 'cookie'>) {
      const token = parseCookies(cookie).get(address.cookieName(COOKIE, host));
      if (token === undefined || !TOKEN.test(token)) return undefined;
      const digest = digestToken(token);
      const found = await sessions.find(digest);
      if (found === undefined) return undefined;
      if (found.isStale) await sessions.touch(digest);
      const { _id: id, name, role, accounts } = found.operator;
      const session: OpenSession = {
        operator: { id, name, role, accounts },
        digest,
        csrf: deriveCsrfToken(token),
      };
      return session;
    },
    /** Returns the cookie of a new session. */
    formatCookie: (host: string, token: string): string =>
      formatCookie(address.cookieName(COOKIE, host), token, {
        maxAgeSeconds: SESSION_MAX_AGE_MS / 1_000,
        isSecure,
      }),
    /** Returns the cookie that removes the session's. */
    formatRemoval: (host: string): string =>
      formatCookie(address.cookieName(COOKIE, host), '', { maxAgeSeconds: 0, isSecure }),
    /** @throws ConsoleError FORBIDDEN for a request that another site may have caused */
    requireOwnOrigin({ origin, host }: Pick<RequestHeaders, 'origin' | 'host'>): void {
      if (!address.isOwnOrigin(origin, host)) throw foreignRequest();
    },
  };
}

/** Derives the CSRF token from a session's token, so that it need not be stored and ends with it. */
export function deriveCsrfToken(sessionToken: string): string {
  return createHmac('sha256', sessionToken).update('csrf').digest('base64url');
}

/** @throws ConsoleError FORBIDDEN when a request does not carry the session's CSRF token */
export function requireCsrfToken(session: OpenSession, given: string | undefined): void {
  const expected = Buffer.from(session.csrf);
  const actual = Buffer.from(given ?? '');
  if (actual.length !== expected.length || !timingSafeEqual(actual, expected)) {
    throw foreignRequest();
  }
}

function foreignRequest(): ConsoleError {
  return new ConsoleError(
    'FORBIDDEN',
    'The request does not come from a page of this console. Reload the page.',
  );
}
