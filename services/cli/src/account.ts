import type { AccountView } from '@carillon/admin/accounts';
import { Argument, type Command, InvalidArgumentError, Option } from 'commander';
import type { Admin } from './admin/admin.ts';
import { withAdmin } from './admin/with-admin.ts';
import { createIntegerParser } from './option-parsers.ts';
import { addPaging, formatPage, type PagingOptions, toPageQuery } from './paging.ts';
import type { CommandContext } from './stack.ts';

const MAX_REQUESTS_PER_MINUTE = 1_000_000_000;

/** Adds `carillon account …`: customers with a plan and a limit of requests per minute. */
export function addAccountCommands(program: Command, { stack, output }: CommandContext): void {
  const account = program
    .command('account')
    .description('manage accounts: plan, request limit, suspension');

  async function changeAccount(change: (admin: Admin) => Promise<AccountView>): Promise<void> {
    const view = await withAdmin(stack(), change);
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
      const created = await withAdmin(stack(), (admin) => admin.createAccount(name, plan));
      output.show(created, [`Account ${created.id} created (${plan}).`]);
    });
  addPaging(
    account.command('list').description('list accounts in order of id'),
    'after',
    'id',
  ).action(async (options: PagingOptions) => {
    const page = await withAdmin(stack(), (admin) => admin.listAccounts(toPageQuery(options)));
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
      changeAccount((admin) => admin.setRequestLimit(id, limit)),
    );
  account
    .command('suspend')
    .description('reject all requests of an account')
    .argument('<id>')
    .action((id: string) => changeAccount((admin) => admin.suspendAccount(id)));
  account
    .command('resume')
    .description('end the suspension of an account')
    .argument('<id>')
    .action((id: string) => changeAccount((admin) => admin.resumeAccount(id)));
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
