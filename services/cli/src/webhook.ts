import { requireApp } from '@carillon/admin/require-app';
import { WEBHOOK_EVENTS, type WebhookEvent } from '@carillon/core/webhooks';
import {
  addWebhook,
  listWebhooks,
  parseWebhookAddress,
  replayWebhook,
  rotateWebhookSecret,
  type WebhookView,
} from '@carillon/store/manage-webhooks';
import type { Store } from '@carillon/store/store';
import type { Command } from 'commander';
import { withStore } from './database.ts';
import { commandFailed, usageError } from './failure.ts';
import { formatCount } from './output.ts';
import type { CommandContext, Stack } from './stack.ts';

interface AppOption {
  app: string;
}

interface AddOptions extends AppOption {
  url: string;
  events?: string;
}

interface ReplayOptions extends AppOption {
  from: string;
  to?: string;
}

/** Adds `carillon webhook …`: addresses that an app's events are sent to. */
export function addWebhookCommands(program: Command, context: CommandContext): void {
  const webhook = program
    .command('webhook')
    .description("manage webhooks: addresses that an app's events are sent to");
  addAddCommand(webhook, context);
  addListCommand(webhook, context);
  addRotateCommand(webhook, context);
  addChangeCommand(webhook, context, {
    name: 'test',
    description: 'send a test event; list shows the response a few seconds later',
    done: 'A test event is sent within seconds.',
    apply: ({ webhooks }, app, id) => webhooks.requestTest(app, id),
  });
  addReplayCommand(webhook, context);
  addChangeCommand(webhook, context, {
    name: 'off',
    description: 'stop sending events',
    done: 'The webhook is off.',
    apply: ({ webhooks }, app, id) => webhooks.turnOffOf(app, id),
  });
  addChangeCommand(webhook, context, {
    name: 'on',
    description: 'send events again, also those that were not sent before',
    done: 'The webhook is on.',
    apply: ({ webhooks }, app, id) => webhooks.turnOn(app, id),
  });
  addChangeCommand(webhook, context, {
    name: 'remove',
    description: 'remove a webhook; events that were not sent yet are discarded',
    done: 'The webhook is removed.',
    apply: ({ webhooks }, app, id) => webhooks.remove(app, id),
  });
}

function addAddCommand(parent: Command, { stack, output }: CommandContext): void {
  parent
    .command('add')
    .description('add a webhook and show its secret, only once')
    .requiredOption('--app <id>', 'the app')
    .requiredOption('--url <address>', 'https address of the receiver')
    .option('--events <names>', `events, separated by commas: ${WEBHOOK_EVENTS.join(', ')}`)
    .action(async ({ app, url, events }: AddOptions) => {
      const address = parseWebhookAddress(url);
      if (address === undefined) throw usageError('--url must be an https address.');
      const names = events === undefined ? WEBHOOK_EVENTS : parseEvents(events);
      const added = await withApp(stack(), app, (store) => addWebhook(store, app, address, names));
      if (added === 'limit')
        throw commandFailed(`App ${app} has as many webhooks as it may have: remove one first.`);
      if (added === 'not-ready')
        throw commandFailed(
          'No delivery worker has run since the upgrade: start one that takes the queue webhook.',
        );
      output.show(added, [
        `Webhook ${added.webhook.id} added.`,
        `Secret, shown only once: ${added.secret}`,
      ]);
    });
}

function parseEvents(text: string): WebhookEvent[] {
  return text.split(',').map((name) => {
    const event = WEBHOOK_EVENTS.find((one) => one === name.trim());
    if (event === undefined) throw usageError(`--events: there is no event ${name.trim()}.`);
    return event;
  });
}

function addListCommand(parent: Command, { stack, output }: CommandContext): void {
  parent
    .command('list')
    .description("list an app's webhooks with their state, without addresses and secrets")
    .requiredOption('--app <id>', 'the app')
    .action(async ({ app }: AppOption) => {
      const views = await withApp(stack(), app, (store) => listWebhooks(store, app));
      output.show(views, views.flatMap(formatWebhook));
    });
}

function formatWebhook({ id, host, state, reason, events, ...facts }: WebhookView): string[] {
  const { failingSince, retryAt, last, dropped } = facts;
  const all = events.length === WEBHOOK_EVENTS.length ? 'all events' : events.join(', ');
  return [
    `${id}  ${state}${reason === undefined ? '' : ` (${reason})`}  ${host}  ${all}`,
    ...(last === undefined ? [] : [`  last answer ${last.status ?? last.error} at ${last.at}`]),
    ...(failingSince === undefined
      ? []
      : [`  fails since ${failingSince}; next request ${retryAt ?? 'none'}`]),
    ...(dropped === undefined
      ? []
      : [`  ${formatCount(dropped, 'event')} dropped: not sent within three days of retention`]),
  ];
}

function addRotateCommand(parent: Command, { stack, output }: CommandContext): void {
  parent
    .command('rotate')
    .description('create a new secret; the previous one signs requests too for 24 hours')
    .argument('<id>', 'id of the webhook')
    .requiredOption('--app <id>', 'the app')
    .action(async (id: string, { app }: AppOption) => {
      const secret = await withApp(stack(), app, (store) => rotateWebhookSecret(store, app, id));
      if (secret === undefined) throw notFound(app, id);
      output.show({ id, secret }, [`Secret, shown only once: ${secret}`]);
    });
}

function addReplayCommand(parent: Command, { stack, output }: CommandContext): void {
  parent
    .command('replay')
    .description('send the events of a time range of pushes again, as far as they are stored')
    .argument('<id>', 'id of the webhook')
    .requiredOption('--app <id>', 'the app')
    .requiredOption('--from <time>', 'begin of the range, ISO 8601')
    .option('--to <time>', 'end of the range; now if absent')
    .action(async (id: string, { app, from, to }: ReplayOptions) => {
      const range = {
        fromMs: parseTime('--from', from),
        toMs: to === undefined ? Date.now() : parseTime('--to', to),
      };
      const pushes = await withApp(stack(), app, (store) => replayAll(store, app, id, range));
      output.show({ id, pushes }, [`${formatCount(pushes, 'push', 'pushes')} reported again.`]);
    });
}

function parseTime(option: string, text: string): number {
  const time = Date.parse(text);
  if (Number.isNaN(time)) throw usageError(`${option} must be a time in ISO 8601.`);
  return time;
}

async function replayAll(
  store: Store,
  app: string,
  id: string,
  range: { fromMs: number; toMs: number },
): Promise<number> {
  let pushes = 0;
  let after: string | undefined;
  do {
    const replayed = await replayWebhook(store, app, id, { ...range, after });
    if (replayed === undefined) throw notFound(app, id);
    pushes += replayed.pushes;
    after = replayed.last;
  } while (after !== undefined);
  return pushes;
}

/** A command that changes one webhook. */
interface ChangeCommand {
  name: string;
  description: string;
  done: string;
  /** False: the app has no such webhook. */
  apply(store: Store, app: string, id: string): Promise<boolean>;
}

function addChangeCommand(
  parent: Command,
  { stack, output }: CommandContext,
  { name, description, done, apply }: ChangeCommand,
): void {
  parent
    .command(name)
    .description(description)
    .argument('<id>', 'id of the webhook')
    .requiredOption('--app <id>', 'the app')
    .action(async (id: string, { app }: AppOption) => {
      if (!(await withApp(stack(), app, (store) => apply(store, app, id)))) throw notFound(app, id);
      output.show({ id }, [done]);
    });
}

function withApp<T>(target: Stack, app: string, run: (store: Store) => Promise<T>): Promise<T> {
  return withStore(target, async (store) => {
    await requireApp(store, app);
    return run(store);
  });
}

function notFound(app: string, id: string) {
  return commandFailed(`App ${app} has no webhook ${id} that this applies to.`);
}
