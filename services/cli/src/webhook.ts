import {
  MAX_PENDING_COUNTED,
  type WebhookDetails,
  type WebhookRequestView,
} from '@carillon/admin/webhooks';
import { WEBHOOK_EVENTS, type WebhookEvent } from '@carillon/core/webhooks';
import { parseWebhookAddress } from '@carillon/webhooks/manage-webhooks';
import type { Command } from 'commander';
import { withAdmin } from './admin/with-admin.ts';
import { usageError } from './failure.ts';
import { formatCount } from './output.ts';
import type { CommandContext } from './stack.ts';

interface AppOption {
  app: string;
}

interface AddOptions extends AppOption {
  url: string;
  events?: string;
}

interface EditOptions extends AppOption {
  url?: string;
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
  addEditCommand(webhook, context);
  addListCommand(webhook, context);
  addRotateCommand(webhook, context);
  addChangeCommand(webhook, context, {
    name: 'test',
    description: 'send a test event; list shows the response a few seconds later',
    done: 'A test event is sent within seconds.',
    apply: 'requestTestEvent',
  });
  addDeliveriesCommand(webhook, context);
  addResendCommand(webhook, context);
  addReplayCommand(webhook, context);
  addChangeCommand(webhook, context, {
    name: 'off',
    description: 'stop sending events',
    done: 'The webhook is off.',
    apply: 'turnWebhookOff',
  });
  addChangeCommand(webhook, context, {
    name: 'on',
    description: 'send events again, also those that were not sent before',
    done: 'The webhook is on.',
    apply: 'turnWebhookOn',
  });
  addChangeCommand(webhook, context, {
    name: 'remove',
    description: 'remove a webhook; events that were not sent yet are discarded',
    done: 'The webhook is removed.',
    apply: 'removeWebhook',
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
      const address = parseAddress(url);
      const names = events === undefined ? WEBHOOK_EVENTS : parseEvents(events);
      const added = await withAdmin(stack(), (admin) => admin.createWebhook(app, address, names));
      output.show(added, [
        `Webhook ${added.webhook.id} added.`,
        `Secret, shown only once: ${added.secret}`,
      ]);
    });
}

function addEditCommand(parent: Command, { stack, output }: CommandContext): void {
  parent
    .command('edit')
    .description('change the address of a webhook, its events, or both; the secret stays')
    .argument('<id>', 'id of the webhook')
    .requiredOption('--app <id>', 'the app')
    .option('--url <address>', 'new https address of the receiver')
    .option('--events <names>', `events, separated by commas: ${WEBHOOK_EVENTS.join(', ')}`)
    .action(async (id: string, { app, url, events }: EditOptions) => {
      if (url === undefined && events === undefined)
        throw usageError('Give --url, --events, or both.');
      const changes = {
        address: url === undefined ? undefined : parseAddress(url),
        events: events === undefined ? undefined : parseEvents(events),
      };
      const webhook = await withAdmin(stack(), (admin) => admin.changeWebhook(app, id, changes));
      output.show(webhook, [`Webhook ${id} changed.`]);
    });
}

function parseAddress(url: string): URL {
  const address = parseWebhookAddress(url);
  if (address === undefined) throw usageError('--url must be an https address.');
  return address;
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
      const views = await withAdmin(stack(), (admin) => admin.listWebhookDetails(app));
      output.show(views, views.flatMap(formatWebhook));
    });
}

function formatWebhook({ id, host, state, reason, events, ...facts }: WebhookDetails): string[] {
  const { failingSince, retryAt, last, pending, dropped } = facts;
  const counted = pending < MAX_PENDING_COUNTED ? String(pending) : `${pending} or more`;
  const all = events.length === WEBHOOK_EVENTS.length ? 'all events' : events.join(', ');
  return [
    `${id}  ${state}${reason === undefined ? '' : ` (${reason})`}  ${host}  ${all}`,
    ...(last === undefined ? [] : [`  last response ${last.status ?? last.error} at ${last.at}`]),
    ...(failingSince === undefined
      ? []
      : [`  fails since ${failingSince}; next request ${retryAt ?? 'none'}`]),
    ...(pending === 0 ? [] : [`  ${counted} pushes, batches and devices are pending`]),
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
      const secret = await withAdmin(stack(), (admin) => admin.renewWebhookSecret(app, id));
      output.show({ id, secret }, [`Secret, shown only once: ${secret}`]);
    });
}

function addDeliveriesCommand(parent: Command, { stack, output }: CommandContext): void {
  parent
    .command('deliveries')
    .description('list the last hundred requests with their responses, the newest first')
    .argument('<id>', 'id of the webhook')
    .requiredOption('--app <id>', 'the app')
    .action(async (id: string, { app }: AppOption) => {
      const requests = await withAdmin(stack(), (admin) => admin.listWebhookRequests(app, id));
      output.show(requests, requests.flatMap(formatRequest));
    });
}

function formatRequest(request: WebhookRequestView): string[] {
  const { id, at, status, error, milliseconds, bytes, attempt, resendOf, answer } = request;
  const types = request.types.map(({ type, count }) => `${count} ${type}`).join(', ');
  const tried = attempt === undefined || attempt === 1 ? '' : `  attempt ${attempt}`;
  const repeats = resendOf === undefined ? '' : `  resend of ${resendOf}`;
  return [
    `${id}  ${at}  ${status ?? error}  ${milliseconds} ms  ${types} (${bytes} bytes)${tried}${repeats}`,
    ...(answer ?? '').split('\n').flatMap((line) => (line === '' ? [] : [`  ${line}`])),
  ];
}

function addResendCommand(parent: Command, { stack, output }: CommandContext): void {
  parent
    .command('resend')
    .description('send the events of a request again, once; deliveries shows the response')
    .argument('<id>', 'id of the webhook')
    .argument('<request>', 'id of the request, as deliveries shows it')
    .requiredOption('--app <id>', 'the app')
    .action(async (id: string, request: string, { app }: AppOption) => {
      await withAdmin(stack(), (admin) => admin.resendRequest(app, id, request));
      output.show({ id, request }, ['The request is sent again within seconds.']);
    });
}

function addReplayCommand(parent: Command, { stack, output }: CommandContext): void {
  parent
    .command('replay')
    .description('send the events of a time range of pushes again, as far as they are stored')
    .argument('<id>', 'id of the webhook')
    .requiredOption('--app <id>', 'the app')
    .requiredOption('--from <time>', 'start of the range, ISO 8601')
    .option('--to <time>', 'end of the range; now if absent')
    .action(async (id: string, { app, from, to }: ReplayOptions) => {
      const range = {
        fromMs: parseTime('--from', from),
        toMs: to === undefined ? Date.now() : parseTime('--to', to),
      };
      const { pushes } = await withAdmin(stack(), (admin) => admin.replayPushes(app, id, range));
      output.show({ id, pushes }, [`${formatCount(pushes, 'push', 'pushes')} reported again.`]);
    });
}

function parseTime(option: string, text: string): number {
  const time = Date.parse(text);
  if (Number.isNaN(time)) throw usageError(`${option} must be a time in ISO 8601.`);
  return time;
}

/** A command that changes one webhook. */
interface ChangeCommand {
  name: string;
  description: string;
  done: string;
  apply: 'requestTestEvent' | 'turnWebhookOff' | 'turnWebhookOn' | 'removeWebhook';
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
      await withAdmin(stack(), (admin) => admin[apply](app, id));
      output.show({ id }, [done]);
    });
}
