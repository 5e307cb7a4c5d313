import {
  createOperatorToken,
  DAY_SECONDS,
  listOperatorTokens,
  type OperatorTokenView,
  revokeOperatorToken,
  TOKEN_DAYS,
  TOKEN_ROLES,
  tokenName,
} from '@carillon/admin/operator-tokens';
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
import { runAudited } from './audited.ts';
import { withStore } from './database.ts';
import { collectValues, createSecondsParser } from './option-parsers.ts';
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

interface TokenOptions {
  role: (typeof TOKEN_ROLES)[number];
  account?: string[];
  expires: number;
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
  addTokenCommands(operator.command('token').description('manage operator tokens'), context);
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

/** Adds `carillon operator token …`: the tokens with which programs use the console's routes. */
function addTokenCommands(parent: Command, { stack, output }: CommandContext): void {
  const { default: defaultDays, max: maxDays } = TOKEN_DAYS;
  parent
    .command('create')
    .description('create a token for the admin API, which is shown only once')
    .argument('<name>', 'name in lists and in the audit log', parseTokenName)
    .addOption(new Option('--role <role>', 'role').choices(TOKEN_ROLES).default('viewer'))
    .option('--account <ids>', 'only these accounts, instead of all', collectAccountIds)
    .addOption(
      new Option('--expires <duration>', `lifetime, at most ${maxDays}d`)
        .argParser(parseLifetime)
        .default(defaultDays * DAY_SECONDS, `${defaultDays}d`),
    )
    .action(async (name: string, { role, account, expires }: TokenOptions) => {
      const grant = { name, role, accounts: account ?? ('all' as const), seconds: expires };
      const facts = { ...grant, accounts: formatScope(grant.accounts) };
      const created = await withStore(stack(), (store) =>
        runAudited(store, { action: 'operator.create-token', facts }, () =>
          createOperatorToken(store, grant),
        ),
      );
      output.show(created, [
        `Token ${created.id} created.`,
        `Token, shown only once: ${created.token}`,
      ]);
    });
  addPaging(
    parent.command('list').description('list the tokens that work, without their text'),
    'after',
    'id',
  ).action(async (options: PagingOptions) => {
    const query = toPageQuery(options);
    const page = await withStore(stack(), (store) => listOperatorTokens(store, query));
    output.show(page.items, formatPage(page, formatToken, 'after'));
  });
  parent
    .command('revoke')
    .description('revoke a token, which no longer works')
    .argument('<token>', 'id, as listed by `list`')
    .action(async (id: string) => {
      const revoked = await withStore(stack(), (store) =>
        runAudited(store, { action: 'operator.revoke-token', facts: { id } }, () =>
          revokeOperatorToken(store, id),
        ),
      );
      output.show(revoked, [`The token ${id} no longer works.`]);
    });
}

/** Parses a lifetime in seconds. A number alone could be meant in days. */
function parseLifetime(text: string): number {
  if (/^[1-9]\d*[smhd]$/.test(text)) return createSecondsParser(TOKEN_DAYS.max * DAY_SECONDS)(text);
  throw new InvalidArgumentError('It must have a unit: 90d, 12h.');
}

function parseTokenName(text: string): string {
  const parsed = tokenName.safeParse(text);
  if (parsed.success) return parsed.data;
  throw new InvalidArgumentError(parsed.error.issues[0]?.message ?? '');
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

function formatToken({ id, name, role, accounts, by, ...times }: OperatorTokenView): string {
  const maker = by ?? 'the command line';
  const expiresAt = new Date(times.expiresAt).toISOString();
  const used = times.lastUsedAt && new Date(times.lastUsedAt).toISOString();
  const use = used ? `last used ${used}` : 'no use recorded';
  return `${id}  ${name}: ${role}, ${formatScope(accounts)}, made by ${maker}, until ${expiresAt}, ${use}`;
}

function formatScope(accounts: OperatorView['accounts']): string {
  return accounts === 'all' ? 'all accounts' : `accounts ${accounts.join(', ') || 'none'}`;
}
