import {
  changeOperator,
  createPasswordLink,
  createSetupLink,
  inviteOperator,
  type LinkView,
  listLinks,
  listOperators,
  type OperatorView,
  revokeLink,
} from '@carillon/admin/operators';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { withStore } from './database.ts';
import { collectValues } from './option-parsers.ts';
import { addPaging, formatPage, type PagingOptions, toPageQuery } from './paging.ts';
import { type CommandContext, requireSetting } from './stack.ts';

const ROLES = ['viewer', 'operator', 'admin', 'owner'] as const;
const ACCOUNT_ID = /^[0-9a-f]{24}$/;
const HOUR = 'It works once, for an hour.';

interface InviteOptions {
  role: (typeof ROLES)[number];
  account?: string[];
  console?: string;
}

/** Adds `carillon operator …`: the users of the console. */
export function addOperatorCommands(program: Command, context: CommandContext): void {
  const operator = program.command('operator').description('manage the operators of the console');
  addInviteCommand(operator, context);
  addPasswordCommand(operator, context);
  addSetUpCommand(operator, context);
  addListCommand(operator, context);
  addLinkCommands(operator, context);
  addAccessCommands(operator, context);
}

function addInviteCommand(parent: Command, { stack, output }: CommandContext): void {
  addConsoleOption(
    parent
      .command('invite')
      .description('print a link that creates an operator, once, within an hour')
      .addOption(new Option('--role <role>', 'role').choices(ROLES).default('viewer'))
      .option('--account <ids>', 'only these accounts, instead of all', collectAccountIds),
  ).action(async ({ role, account, console: given }: InviteOptions) => {
    const target = stack();
    const base = given ?? requireSetting(target, 'console');
    const grant = { role, accounts: account ?? ('all' as const) };
    const invited = await withStore(target, (store) => inviteOperator(store, base, grant));
    output.show(invited, [invited.link, HOUR]);
  });
}

function addPasswordCommand(parent: Command, { stack, output }: CommandContext): void {
  addConsoleOption(
    parent
      .command('password')
      .description('print a link that sets a new password of an operator, once, within an hour')
      .argument('<operator>', 'id or name'),
  ).action(async (operator: string, { console: given }: { console?: string }) => {
    const target = stack();
    const base = given ?? requireSetting(target, 'console');
    const created = await withStore(target, (store) => createPasswordLink(store, base, operator));
    output.show(created, [created.link, HOUR]);
  });
}

// Used by the first run.
function addSetUpCommand(parent: Command, { stack, output }: CommandContext): void {
  addConsoleOption(
    parent
      .command('set-up', { hidden: true })
      .description('print a link that creates the first operator, if there is none'),
  ).action(async ({ console: given }: { console?: string }) => {
    const target = stack();
    const base = given ?? requireSetting(target, 'console');
    const link = await withStore(target, (store) => createSetupLink(store, base));
    const lines = link === undefined ? ['There are operators.'] : [link, HOUR];
    output.show(link === undefined ? {} : { link }, lines);
  });
}

function addListCommand(parent: Command, { stack, output }: CommandContext): void {
  addPaging(
    parent.command('list').description('list operators in order of id'),
    'after',
    'id',
  ).action(async (options: PagingOptions) => {
    const page = await withStore(stack(), (store) => listOperators(store, toPageQuery(options)));
    output.show(page.items, formatPage(page, formatOperator, 'after'));
  });
}

function addLinkCommands(parent: Command, { stack, output }: CommandContext): void {
  addPaging(
    parent.command('links').description('list the links that nobody has used yet'),
    'after',
    'id',
  ).action(async (options: PagingOptions) => {
    const page = await withStore(stack(), (store) => listLinks(store, toPageQuery(options)));
    output.show(page.items, formatPage(page, formatLink, 'after'));
  });
  parent
    .command('revoke-link')
    .description('revoke a link, which no longer works')
    .argument('<link>', 'id, as listed by `links`')
    .action(async (id: string) => {
      const revoked = await withStore(stack(), (store) => revokeLink(store, id));
      output.show(revoked, [`The link ${id} no longer works.`]);
    });
}

function addAccessCommands(parent: Command, { stack, output }: CommandContext): void {
  const commands = [
    ['disable', 'end the sessions of an operator, who can no longer log in', true],
    ['enable', 'let a disabled operator log in again', false],
  ] as const;
  for (const [name, description, disabled] of commands) {
    parent
      .command(name)
      .description(description)
      .argument('<operator>', 'id or name')
      .action(async (operator: string) => {
        const change = (store: Parameters<typeof changeOperator>[0]) =>
          changeOperator(store, operator, { disabled });
        const view = await withStore(stack(), change);
        output.show(view, [formatOperator(view)]);
      });
  }
}

function addConsoleOption(command: Command): Command {
  return command.option('--console <url>', 'address of the console, instead of CONSOLE_URL');
}

function collectAccountIds(text: string, previous?: readonly string[]): string[] {
  const ids = collectValues(text, previous);
  if (ids.every((id) => ACCOUNT_ID.test(id))) return ids;
  throw new InvalidArgumentError('The id of an account has 24 hexadecimal digits.');
}

function formatOperator({ id, name, role, accounts, disabled }: OperatorView): string {
  return `${id}  ${name}: ${role}, ${formatScope(accounts)}${disabled ? ', disabled' : ''}`;
}

function formatLink({ id, kind, role, accounts, operator, by, expiresAt }: LinkView): string {
  const purpose =
    kind === 'reset'
      ? `new password of ${operator ?? 'an operator'}`
      : `invite: ${role}, ${formatScope(accounts)}`;
  const maker = by ?? 'the command line';
  return `${id}  ${purpose}, made by ${maker}, until ${new Date(expiresAt).toISOString()}`;
}

function formatScope(accounts: OperatorView['accounts']): string {
  return accounts === 'all' ? 'all accounts' : `accounts ${accounts.join(', ') || 'none'}`;
}
