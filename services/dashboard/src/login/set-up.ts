import { operatorName } from '@carillon/admin/operator-name';
import { digestToken, endAccess } from '@carillon/admin/operators';
import type { OperatorDocument } from '@carillon/store/console-documents';
import type { OpenLink } from '@carillon/store/invites';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import type { Audited } from '../http/audited.ts';
import { defineOpenRoute, type OpenReply, type OpenRequest } from '../http/open-route.ts';
import { ConsoleError } from '../http/route.ts';
import type { BeginSession, SessionView } from './begin-session.ts';
import { newPassword, requireUncommon } from './new-password.ts';
import type { Passwords } from './passwords.ts';
import { toEntry } from './routes.ts';

const MAX_TOKEN = 100;

const redemption = z.object({
  token: z.string().max(MAX_TOKEN),
  name: operatorName.optional(),
  password: newPassword,
});

type SetUpStore = Pick<Store, 'operators' | 'sessions' | 'invites' | 'operatorTokens'>;
type Redemption = z.infer<typeof redemption>;

/** A link that works, with what its holder has chosen. */
interface Redeemed {
  digest: Buffer;
  link: OpenLink;
  name: string;
  passwordHash: string;
}

type LoggedIn = Pick<OperatorDocument, '_id' | 'name' | 'role' | 'accounts' | 'passwordHash'>;

/** Returns the routes of one-time links: the first operator, an invite, a new password. */
export function setUpRoutes({
  store,
  audited,
  passwords,
  beginSession,
}: {
  store: SetUpStore;
  audited: Audited;
  passwords: Passwords;
  beginSession: BeginSession;
}) {
  async function redeem(request: OpenRequest<Redemption>): Promise<OpenReply<SessionView>> {
    const { input, address } = request;
    const digest = digestToken(input.token);
    // First, so that only the holder of a link makes the process hash.
    const link = await findLink(store, digest);
    if (link === undefined) throw deadLink();
    const name = link.target?.name ?? input.name;
    if (!name) throw new ConsoleError('INVALID_PARAM', 'name: Choose a name.');
    requireUncommon(input.password, name);
    const client = { address, knownAs: link.id };
    const passwordHash = await passwords.hash(input.password, client);
    const apply = link.kind === 'reset' ? resetPassword : createOperator;
    const operator = await apply(store, audited, request, { digest, link, name, passwordHash });
    return beginSession(request, operator);
  }

  return [
    defineOpenRoute({
      method: 'get',
      path: '/setup',
      session: 'optional',
      input: z.object({}),
      // In a header, because proxies log paths.
      handle: async ({ header }) => ({
        body: await describeLink(store, header('x-setup-token') ?? ''),
      }),
    }),
    defineOpenRoute({
      method: 'post',
      path: '/setup',
      session: 'optional',
      input: redemption,
      handle: (request) => redeem(request),
    }),
  ];
}

/** Purpose of a one-time link. */
type LinkView =
  | { valid: false }
  /** `name` is that of the operator whose password is set. */
  | { valid: true; kind: OpenLink['kind']; role: OpenLink['role']; name?: string };

async function describeLink(store: SetUpStore, token: string): Promise<LinkView> {
  const link = await findLink(store, digestToken(token));
  if (link === undefined) return { valid: false };
  const { kind, role, target } = link;
  return { valid: true, kind, role, ...(target && { name: target.name }) };
}

async function createOperator(
  store: SetUpStore,
  audited: Audited,
  request: OpenRequest<Redemption>,
  { digest, link, name, passwordHash }: Redeemed,
): Promise<LoggedIn> {
  const { kind, role, accounts } = link;
  const entry = {
    ...toEntry(request, 'operator.create', { _id: '', name }),
    facts: { role, kind, link: link.id },
  };
  return audited(
    entry,
    async () => {
      if ((await store.invites.redeem(digest)) === undefined) throw deadLink();
      const first = kind === 'setup';
      const _id = await store.operators.create({ name, role, accounts, passwordHash, first });
      if (_id !== undefined) {
        if (first) await store.invites.removeSetUps();
        return { _id, name, role, accounts, passwordHash };
      }
      await store.invites.release(digest);
      if (first) throw deadLink();
      throw new ConsoleError('CONFLICT', 'An operator with this name exists. Choose another name.');
    },
    ({ _id: id }) => ({ id }),
  );
}

async function resetPassword(
  store: SetUpStore,
  audited: Audited,
  request: OpenRequest<Redemption>,
  { digest, link, passwordHash }: Redeemed,
): Promise<LoggedIn> {
  const { target } = link;
  if (target === undefined) throw deadLink();
  const entry = { ...toEntry(request, 'password.reset', target), facts: { link: link.id } };
  return audited(entry, async () => {
    if ((await store.invites.redeem(digest)) === undefined) throw deadLink();
    const { _id: id, passwordHash: before } = target;
    const changed = await store.operators.setPassword(id, before, passwordHash);
    if (changed === undefined) throw deadLink();
    await endAccess(store, id);
    return changed;
  });
}

/** Finds a link that works now: a set-up link only until there is an operator. */
async function findLink(store: SetUpStore, digest: Buffer): Promise<OpenLink | undefined> {
  const link = await store.invites.find(digest);
  return link?.kind === 'setup' && (await store.operators.exist()) ? undefined : link;
}

function deadLink(): ConsoleError {
  return new ConsoleError(
    'NOT_FOUND',
    'The link has been used or revoked, or is older than an hour. "carillon operator invite" prints a new one, and "carillon operator password" one for a password.',
  );
}
