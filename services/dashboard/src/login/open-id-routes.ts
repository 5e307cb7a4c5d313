import { endAccess, endGrants } from '@carillon/admin/operators';
import type { Logger } from '@carillon/runtime/logger';
import type { OperatorDocument } from '@carillon/store/console-documents';
import { managesOperators } from '@carillon/store/operators';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import { type ConsoleAddress, formatCookie } from '../http/address.ts';
import type { Audited } from '../http/audited.ts';
import {
  defineOpenRoute,
  type OpenReply,
  type OpenRequest,
  type OpenRoute,
} from '../http/open-route.ts';
import { ConsoleError } from '../http/route.ts';
import type { BeginSession } from './begin-session.ts';
import type { Identity, OpenId, PendingLogin } from './open-id.ts';
import { toEntry } from './routes.ts';
import type { createTextSigner } from './signed-text.ts';

const COOKIE = 'openid';
const LOGIN_SECONDS = 600;
const MAX_PATH = 2_000;
const REFUSED = '/login?error=openid';
// Another host would be an open redirect: `//host`, and `/\host`, which browsers read alike.
const OWN_PATH = /^\/(?![/\\])[^\\\p{Cc}]*$/u;

const pendingLogin = z.object({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  path: z.string(),
  /** Unix milliseconds. */
  until: z.number(),
});

type TextSigner = ReturnType<typeof createTextSigner>;

/** Returns the routes of single sign-on: to the provider's login page and back. */
export function openIdRoutes({
  store,
  log,
  openId,
  address,
  signer,
  beginSession,
  audited,
}: {
  store: Pick<Store, 'operators' | 'sessions' | 'invites' | 'operatorTokens' | 'clock'>;
  log: Pick<Logger, 'warn'>;
  openId: OpenId;
  address: ConsoleAddress;
  signer: TextSigner;
  beginSession: BeginSession;
  audited: Audited;
}): OpenRoute[] {
  /** Ends the login of a callback, and returns the reply that begins the session. */
  async function finish(request: OpenRequest<unknown>): Promise<OpenReply> {
    const { path, ...pending } = readPending(address, signer, store, request);
    const at = request.url.indexOf('?');
    const identity = await openId.finish(at < 0 ? '' : request.url.slice(at), pending);
    const operator = await findOrCreate(store, identity);
    const entry = toEntry(request, 'login.openid', operator);
    const { cookies = [] } = await audited(entry, () => beginSession(request, operator));
    return { redirect: path, cookies };
  }

  return [
    defineOpenRoute({
      method: 'get',
      path: '/oidc/start',
      session: 'optional',
      input: z.object({ return: z.string().max(MAX_PATH).regex(OWN_PATH).catch('/') }),
      handle: async ({ input, host, requestId }) => {
        const started = await openId.begin().catch((err: unknown) => {
          log.warn({ err, id: requestId }, 'the OpenID provider can’t be reached');
          throw new ConsoleError('UNAVAILABLE', 'The provider of single sign-on does not respond.');
        });
        const until = store.clock.now() + LOGIN_SECONDS * 1_000;
        const text = JSON.stringify({ ...started.pending, path: input.return, until });
        return {
          redirect: started.url,
          cookies: [formatPendingCookie(address, host, signer.sign(text), LOGIN_SECONDS)],
        };
      },
    }),
    defineOpenRoute({
      method: 'get',
      path: '/oidc/callback',
      session: 'optional',
      // The client library reads the URL.
      input: z.looseObject({}),
      handle: async (request) => {
        const removal = formatPendingCookie(address, request.host, '', 0);
        try {
          const { cookies = [], redirect = '/' } = await finish(request);
          return { redirect, cookies: [removal, ...cookies] };
        } catch (err) {
          // The library's errors name the failed check; they hold no token.
          log.warn({ err, id: request.requestId }, 'a single sign-on was refused');
          return { redirect: REFUSED, cookies: [removal] };
        }
      },
    }),
  ];
}

function readPending(
  address: ConsoleAddress,
  signer: TextSigner,
  { clock }: Pick<Store, 'clock'>,
  { cookies, host }: OpenRequest<unknown>,
): PendingLogin & { path: string } {
  const text = signer.verify(cookies.get(address.cookieName(COOKIE, host)));
  if (text === undefined) throw new Error('the callback is of another browser');
  const { until, ...pending } = pendingLogin.parse(JSON.parse(text));
  if (until < clock.now()) throw new Error('the login took too long');
  return pending;
}

/** Updates the operator of an identity, or creates it. Without a role claim it has no access, and its sessions, links and tokens end. */
async function findOrCreate(
  store: Pick<Store, 'operators' | 'sessions' | 'invites' | 'operatorTokens'>,
  { openId, names, role, accounts }: Identity,
): Promise<Pick<OperatorDocument, '_id' | 'name' | 'role' | 'accounts'>> {
  const { operators } = store;
  if (role === undefined) {
    const existing = await operators.findByOpenId(openId);
    if (existing !== undefined) await endAccess(store, existing._id);
    throw new Error('the provider gives no role');
  }
  const updated = await operators.updateByOpenId(openId, role, accounts);
  if (updated?.disabledAt !== undefined) throw new Error('the operator is disabled');
  if (updated !== undefined) {
    if (!managesOperators(updated)) await endGrants(store, updated._id);
    return updated;
  }
  for (const name of names) {
    const _id = await operators.create({ name, role, accounts, openId });
    if (_id !== undefined) return { _id, name, role, accounts };
  }
  throw new Error('the provider gives no name that is free and has no control characters');
}

function formatPendingCookie(
  address: ConsoleAddress,
  host: string,
  value: string,
  maxAgeSeconds: number,
): string {
  const { isSecure } = address;
  return formatCookie(address.cookieName(COOKIE, host), value, { maxAgeSeconds, isSecure });
}
