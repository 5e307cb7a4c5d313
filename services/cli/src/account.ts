import {
  type AccountView,
  createAccount,
  listAccounts,
  resumeAccount,
  setRequestLimit,
  suspendAccount,
} from '@carillon/admin/accounts';
import type { Store } from '@carillon/store/store';
import { Argument, type Command, InvalidArgumentError, Option } from 'commander';
import { withStore } from './database.ts';
import { createIntegerParser } from './option-parsers.ts';
import { addPaging, formatPage, type PagingOptions, toPageQuery } from './paging.ts';
import type { CommandContext } from './stack.ts';

const MAX_REQUESTS_PER_MINUTE = 1_000_000_000;

/** Adds `carillon account …`: customers with a plan and a limit of requests per minute. */
export function addAccountCommands(program: Command, { stack, output }: CommandContext): void {
  const account = program
    .command('account')
    .description('manage accounts: plan, request limit, suspension');

  async function changeAccount(change: (store: Store) => Promise<AccountView>): Promise<void> {
    const view = await withStore(stack(), change);
    output.show(view, [`Account ${view.id} (${view.name}): ${describeAccount(view)}`]);
  }

  account
    .command('create')
    .description('create an account')
    .argument('<name>')
    .addOption(
      new Option('--plan <plan>', 'plan of the account').choices(['trial', 'pro']).default('trial'),
    )
    .action(async (name: string, { plan }: { plan: AccountView['plan'] }) => {
      const created = await withStore(stack(), (store) => createAccount(store, name, plan));
      output.show(created, [`Account ${created.id} created (${plan}).`]);
    });
  addPaging(
    account.command('list').description('list accounts in order of id'),
    'after',
    'id',
  ).action(async (options: PagingOptions) => {
    const page = await withStore(stack(), (store) => listAccounts(store, toPageQuery(options)));
    const format = (view: AccountView) => `${view.id}  ${view.name}: ${describeAccount(view)}`;
    output.show(page.items, formatPage(page, format, 'after'));
  });
  account
    .command('limit')
    .description("set an account's requests per minute, instead of the plan's limit")
    .argument('<id>')
    .addArgument(
      new Argument('<requests>', 'a number, or unlimited').argParser(parseRequestsPerMinute),
    )
    .action((id: string, limit: number | null) =>
      changeAccount((store) => setRequestLimit(store, id, limit)),
    );
  account
    .command('suspend')
    .description('reject all requests of an account')
    .argument('<id>')
    .action((id: string) => changeAccount((store) => suspendAccount(store, id)));
  account
    .command('resume')
    .description('end the suspension of an account')
    .argument('<id>')
    .action((id: string) => changeAccount((store) => resumeAccount(store, id)));
}

function parseRequestsPerMinute(text: string): number | null {
  if (text === 'unlimited') return null;
  try {
    return createIntegerParser(1, MAX_REQUESTS_PER_MINUTE)(text);
  } catch {
    throw new InvalidArgumentError('It must be a whole number from 1, or unlimited.');
  }
}

function describeAccount({ plan, limit, suspended }: AccountView): string {
  const requests =
    limit === undefined ? "the plan's limit" : `${limit ?? 'unlimited'} requests/min`;
  return `${plan}, ${requests}${suspended ? ', suspended' : ''}.`;
}
