import { digestToken } from '@carillon/admin/operators';
import type { InviteDocument, OperatorDocument } from '@carillon/store/console-documents';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import type { Audited } from '../http/audited.ts';
import {
  defineOpenRoute,
  type OpenReply,
  type OpenRequest,
  type OpenRoute,
} from '../http/open-route.ts';
import { ConsoleError } from '../http/route.ts';
import type { BeginSession } from './begin-session.ts';
import { operatorName } from './operator-name.ts';
import type { Passwords } from './passwords.ts';
import { newPassword, toEntry } from './routes.ts';

const MAX_TOKEN = 100;

const redemption = z.object({
  token: z.string().max(MAX_TOKEN),
  name: operatorName.optional(),
  password: newPassword,
});

type SetUpStore = Pick<Store, 'operators' | 'sessions' | 'invites'>;
type Redemption = z.infer<typeof redemption>;

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
}): OpenRoute[] {
  async function redeem(request: OpenRequest<Redemption>): Promise<OpenReply> {
    const { input, address } = request;
    const digest = digestToken(input.token);
    // First, so that only the holder of a link makes the process hash.
    const invite = await findLink(store, digest);
    if (invite === undefined) throw deadLink();
    if (invite.kind !== 'reset' && !input.name) {
      throw new ConsoleError('INVALID_PARAM', 'name: Choose a name.');
    }
    const passwordHash = await passwords.hash(input.password, address);
    const apply = invite.kind === 'reset' ? resetPassword : createOperator;
    const operator = await apply(store, audited, request, { digest, invite, passwordHash });
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

async function describeLink(store: SetUpStore, token: string) {
  const invite = await findLink(store, digestToken(token));
  if (invite === undefined) return { valid: false };
  const { kind, role, operator } = invite;
  const owner = operator && (await store.operators.find(operator));
  return { valid: true, kind, role, ...(owner && { name: owner.name }) };
}

async function createOperator(
  store: SetUpStore,
  audited: Audited,
  request: OpenRequest<Redemption>,
  {
    digest,
    invite,
    passwordHash,
  }: { digest: Buffer; invite: InviteDocument; passwordHash: string },
): Promise<Pick<OperatorDocument, '_id' | 'name' | 'role' | 'accounts'>> {
  const { kind, role, accounts } = invite;
  const name = request.input.name ?? '';
  const entry = {
    ...toEntry(request, 'operator.create', { _id: '', name }),
    facts: { role, kind },
  };
  return audited(
    entry,
    async () => {
      if ((await store.invites.redeem(digest)) === undefined) throw deadLink();
      const first = kind === 'setup';
      const _id = await store.operators.create({ name, role, accounts, passwordHash, first });
      if (_id !== undefined) {
        if (first) await store.invites.removeSetUps();
        return { _id, name, role, accounts };
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
  {
    digest,
    invite,
    passwordHash,
  }: { digest: Buffer; invite: InviteDocument; passwordHash: string },
): Promise<OperatorDocument> {
  const operator = await store.operators.find(invite.operator ?? '');
  if (operator === undefined) throw deadLink();
  return audited(toEntry(request, 'password.reset', operator), async () => {
    if ((await store.invites.redeem(digest)) === undefined) throw deadLink();
    const changed = await store.operators.setPassword(operator._id, passwordHash);
    if (changed === undefined) throw deadLink();
    await store.sessions.endAll(operator._id);
    return changed;
  });
}

/** Finds a link that works now: a set-up link only until there is an operator, a reset only for one that may log in. */
async function findLink(store: SetUpStore, digest: Buffer): Promise<InviteDocument | undefined> {
  const invite = await store.invites.find(digest);
  if (invite === undefined) return undefined;
  if (invite.kind === 'setup') return (await store.operators.exist()) ? undefined : invite;
  if (invite.kind === 'invite') return invite;
  const operator = await store.operators.find(invite.operator ?? '');
  return operator === undefined || operator.disabledAt !== undefined ? undefined : invite;
}

function deadLink(): ConsoleError {
  return new ConsoleError(
    'NOT_FOUND',
    'The link has been used or is older than an hour. "carillon operator invite" prints a new one, and "carillon operator password" one for a password.',
  );
}
