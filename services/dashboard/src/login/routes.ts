import { endAccess } from '@carillon/admin/operators';
import type { Logger } from '@carillon/runtime/logger';
import type { OperatorDocument } from '@carillon/store/console-documents';
import { toNameKey } from '@carillon/store/operators';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import type { Audited } from '../http/audited.ts';
import { defineOpenRoute, type OpenRequest } from '../http/open-route.ts';
import { ConsoleError, notFound } from '../http/route.ts';
import type { SessionReader } from '../http/session-reader.ts';
import type { createBackOff } from './back-off.ts';
import { type BeginSession, type Installation, toSessionView } from './begin-session.ts';
import type { createKnownBrowsers } from './known-browsers.ts';
import { MAX_PASSWORD, newPassword, requireUncommon } from './new-password.ts';
import type { Passwords } from './passwords.ts';

const MAX_NAME = 100;

/** A password that is checked, which may be older than the rules for new ones. */
const givenPassword = z.string().max(MAX_PASSWORD, 'The password is too long.');
const nothing = z.object({});

/**
 * Returns the routes of login, logout and the own password.
 *
 * @param openIdLabel text of the button for single sign-on; undefined without a provider
 */
export function loginRoutes({
  store,
  sessions,
  beginSession,
  passwords,
  audited,
  installation,
  openIdLabel,
  ...checks
}: {
  store: Pick<Store, 'operators' | 'sessions' | 'invites' | 'operatorTokens'>;
  log: Pick<Logger, 'warn'>;
  sessions: SessionReader;
  beginSession: BeginSession;
  passwords: Passwords;
  backOff: ReturnType<typeof createBackOff>;
  knownBrowsers: ReturnType<typeof createKnownBrowsers>;
  audited: Audited;
  installation: Installation;
  openIdLabel: string | undefined;
}) {
  const checkPassword = createPasswordCheck({ ...checks, passwords });
  return [
    defineOpenRoute({
      method: 'get',
      path: '/login',
      session: 'optional',
      input: nothing,
      handle: async () => ({
        body: {
          /** There is no operator yet: only the set-up link helps. */
          setupNeeded: !(await store.operators.exist()),
          openId: openIdLabel === undefined ? null : { label: openIdLabel },
        },
      }),
    }),
    defineOpenRoute({
      method: 'get',
      path: '/session',
      session: 'required',
      input: nothing,
      handle: async ({ session }) => {
        if (session === undefined) throw notFound();
        return { body: toSessionView(session.operator, session.csrf, installation) };
      },
    }),
    defineOpenRoute({
      method: 'post',
      path: '/login',
      session: 'optional',
      input: z.object({ name: z.string().max(MAX_NAME), password: givenPassword }),
      handle: async (request) => {
        const { name, password } = request.input;
        const operator = await store.operators.findByName(name);
        await checkPassword(request, { name, password, operator });
        if (operator === undefined || operator.disabledAt !== undefined) throw wrongPassword();
        return audited(toEntry(request, 'login', operator), () => beginSession(request, operator));
      },
    }),
    defineOpenRoute({
      method: 'post',
      path: '/logout',
      session: 'required',
      input: nothing,
      handle: async ({ session, host }) => {
        if (session !== undefined) await store.sessions.end(session.digest);
        return { cookies: [sessions.formatRemoval(host)] };
      },
    }),
    changePasswordRoute(store, audited, passwords, checkPassword),
  ];
}

function changePasswordRoute(
  store: Pick<Store, 'operators' | 'sessions' | 'invites' | 'operatorTokens'>,
  audited: Audited,
  passwords: Passwords,
  checkPassword: ReturnType<typeof createPasswordCheck>,
) {
  return defineOpenRoute({
    method: 'post',
    path: '/password',
    session: 'required',
    input: z.object({ current: givenPassword, next: newPassword }),
    handle: async (request) => {
      const { session, input } = request;
      const operator = session && (await store.operators.find(session.operator.id));
      if (session === undefined || operator === undefined) throw notFound();
      if (operator.openId !== undefined) {
        throw new ConsoleError('CONFLICT', 'You log in by single sign-on, without a password.');
      }
      const { name } = operator;
      requireUncommon(input.next, name);
      await checkPassword(request, { name, password: input.current, operator });
      const client = { address: request.address, knownAs: operator._id };
      const hash = await passwords.hash(input.next, client);
      await audited(toEntry(request, 'password.change', operator), async () => {
        const { _id: id, passwordHash } = operator;
        if ((await store.operators.setPassword(id, passwordHash, hash)) === undefined) {
          throw new ConsoleError('CONFLICT', 'The password has been changed meanwhile.');
        }
        await endAccess(store, id, session.digest);
      });
      return {};
    },
  });
}

/** Creates the check of a password, which takes part in the back-off. */
function createPasswordCheck({
  backOff,
  knownBrowsers,
  passwords,
  log,
}: {
  backOff: ReturnType<typeof createBackOff>;
  knownBrowsers: ReturnType<typeof createKnownBrowsers>;
  passwords: Passwords;
  log: Pick<Logger, 'warn'>;
}) {
  /**
   * Checks a password with back-off.
   *
   * @throws ConsoleError UNAUTHENTICATED, TOO_MANY_ATTEMPTS, UNAVAILABLE
   */
  return async (
    request: OpenRequest<unknown>,
    given: { name: string; password: string; operator: OperatorDocument | undefined },
  ): Promise<void> => {
    const { address, requestId, signal } = request;
    const { operator } = given;
    const knownBrowser = knownBrowsers.find(request, operator?._id);
    const attempt = await backOff.begin(toNameKey(given.name), { address, knownBrowser, signal });
    let isRight: boolean;
    try {
      isRight = await passwords.verify(given.password, operator?.passwordHash, {
        address,
        knownAs: knownBrowser === undefined ? undefined : operator?._id,
      });
    } catch (error) {
      attempt.cancel();
      throw error;
    }
    if (isRight) return attempt.succeed();
    // Not in the audit log, which any client could fill by this. The name could be a password in the wrong field.
    log.warn({ id: requestId, address, operator: operator?._id }, 'wrong password');
    throw wrongPassword();
  };
}

/** The same for an unknown name, a wrong password and a disabled operator. */
function wrongPassword(): ConsoleError {
  return new ConsoleError('UNAUTHENTICATED', 'The name or the password is wrong.');
}

/** Returns the entry of the audit log for something that an operator does with its own access. */
export function toEntry(
  { address, requestId }: Pick<OpenRequest<unknown>, 'address' | 'requestId'>,
  action: string,
  { _id: id, name }: Pick<OperatorDocument, '_id' | 'name'>,
) {
  return { actor: { id, name }, action, facts: {}, address, requestId };
}
