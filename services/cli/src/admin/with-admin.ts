import { withStore } from '../database.ts';
import { usageError } from '../failure.ts';
import type { Stack } from '../stack.ts';
import type { Admin } from './admin.ts';
import { createLocalAdmin } from './local.ts';
import { createRemoteAdmin } from './remote.ts';

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/**
 * Does administrative work: over the console if the environment has one and a token for it, otherwise over the database.
 *
 * @throws Failure of usage for one of them without the other, and for an address without TLS outside this machine
 */
export async function withAdmin<T>(stack: Stack, work: (admin: Admin) => Promise<T>): Promise<T> {
  const { adminConsole: base, adminToken: token } = stack;
  if (base === undefined && token === undefined)
    return withStore(stack, (store) => work(createLocalAdmin(store, stack)));
  if (base === undefined || token === undefined) {
    const [given, missing] =
      base === undefined
        ? ['CARILLON_TOKEN', 'CARILLON_CONSOLE']
        : ['CARILLON_CONSOLE', 'CARILLON_TOKEN'];
    throw usageError(`${given} is set without ${missing}: set both, or neither.`);
  }
  const { protocol, hostname } = new URL(base);
  if (protocol !== 'https:' && !LOOPBACK.test(hostname)) {
    throw usageError(
      `CARILLON_CONSOLE must be an https address: CARILLON_TOKEN would reach ${hostname} in clear text.`,
    );
  }
  return work(createRemoteAdmin(base, token));
}
