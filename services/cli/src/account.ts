import type { AccountDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { Argument, type Command, InvalidArgumentError, Option } from 'commander';
import { wholeNumber } from './arguments.ts';
import { withStore } from './database.ts';
import { refused } from './failure.ts';
import type { Output } from './output.ts';
import type { Stack } from './stack.ts';

const MOST_REQUESTS = 1_000_000_000;

/** `carillon account …`: customers with a plan and a limit of requests per minute. */
export function addAccountCommands(
  program: Command,
  { stack, output }: { stack: () => Stack; output: Output },
): void {
  const account = program.command('account').description('accounts: plan, limit, suspension');

  async function change(
    id: string,
    what: (accounts: Store['accounts']) => Promise<AccountDocument | undefined>,
  ): Promise<void> {
    const changed = await withStore(stack(), (store) => what(store.accounts));
    if (changed === undefined) throw refused(`There is no account ${id}.`);
    const view = accountView(changed);
    output.show(view, [`Account ${id} (${view.name}): ${inWords(view)}`]);
  }

  account
    .command('create')
    .description('make an account')
    .argument('<name>')
    .addOption(new Option('--plan <plan>', 'its plan').choices(['trial', 'pro']).default('trial'))
    .action(async (name: string, { plan }: { plan: AccountDocument['plan'] }) => {
      const id = await withStore(stack(), (store) => store.accounts.create(name, plan));
      output.show({ id }, [`Account ${id} made (${plan}).`]);
    });
  account
    .command('limit')
    .description("set the requests per minute instead of the plan's")
    .argument('<id>')
    .addArgument(new Argument('<requests>', 'a number, or unlimited').argParser(requestsPerMinute))
    .action((id: string, limit: number | null) =>
      change(id, (accounts) => accounts.limit(id, limit)),
    );
  account
    .command('suspend')
    .description('refuse all requests of an account')
    .argument('<id>')
    .action((id: string) => change(id, (accounts) => accounts.suspend(id)));
  account
    .command('resume')
    .description('end a suspension')
    .argument('<id>')
    .action((id: string) => change(id, (accounts) => accounts.resume(id)));
}

function requestsPerMinute(text: string): number | null {
  if (text === 'unlimited') return null;
  try {
    return wholeNumber(1, MOST_REQUESTS)(text);
  } catch {
    throw new InvalidArgumentError('It must be a whole number from 1, or unlimited.');
  }
}

interface AccountView {
  id: string;
  name: string;
  plan: AccountDocument['plan'];
  /** Requests per minute; null: unlimited; absent: the plan's. */
  limit?: number | null;
  suspended: boolean;
}

function accountView({ _id, name, plan, limit, suspendedAt }: AccountDocument): AccountView {
  const own = limit === undefined ? {} : { limit };
  return { id: _id, name, plan, ...own, suspended: suspendedAt !== undefined };
}

function inWords({ plan, limit, suspended }: AccountView): string {
  const requests =
    limit === undefined ? "the plan's limit" : `${limit ?? 'unlimited'} requests/min`;
  return `${plan}, ${requests}${suspended ? ', suspended' : ''}.`;
}
