import { ENDS, type getPushOutcomes, LISTED_STATES, type PushView } from '@carillon/admin/pushes';
import { LIMITS, TOPIC_NAME } from '@carillon/core/limits';
import type { RecipientStatus } from '@carillon/store/documents';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { z } from 'zod';
import type { PushFilter } from './admin/admin.ts';
import { withAdmin } from './admin/with-admin.ts';
import { type ApiRequest, requestApi } from './api-client.ts';
import { usageError } from './failure.ts';
import {
  collectValues,
  createSecondsParser,
  parseJsonObjectText,
  parsePastTime,
  parseTimestamp,
} from './option-parsers.ts';
import { formatCount, formatTimestamp } from './output.ts';
import { addPaging, formatPage, type PagingOptions, toPageQuery } from './paging.ts';
import type { PushText } from './send-directly.ts';
import { type CommandContext, requireSetting, type Stack } from './stack.ts';

interface SendOptions {
  app?: string;
  to?: string[];
  topic?: string[];
  data: string;
  ttl?: number;
  collapseKey?: string;
  schedule?: number;
  activeWithin?: number;
  priority?: 'high' | 'normal';
  notification?: string;
  apns?: string;
  fcm?: string;
  webPush?: string;
  contentAvailable?: true;
  mutableContent?: true;
  idempotencyKey?: string;
}

/** Adds `carillon push …`: sends pushes and shows their outcomes. */
export function addPushCommands(program: Command, context: CommandContext): void {
  const push = program.command('push').description('send pushes and show their outcomes');
  addSendCommand(push, context);
  addStatusCommand(push, context);
  addDeleteCommand(push, context);
  addListCommand(push, context);
  addOutcomesCommand(push, context);
}

const parseActiveWithin = createSecondsParser(LIMITS.activeSecondsMax);

function addSendCommand(push: Command, { stack, output }: CommandContext): void {
  push
    .command('send')
    .description('send a push: through the API, or with --app as the console does')
    .option(
      '--app <id>',
      'the app, instead of that of the API key: the push goes to MongoDB and Redis, and needs no key',
    )
    .option('--to <tokens>', 'device tokens, separated by commas; repeatable', collectValues)
    .option('--topic <names>', 'topics, separated by commas; repeatable', collectValues)
    .requiredOption('--data <json>', 'the payload, a JSON object or @FILE', parseJsonObjectText)
    .option(
      '--ttl <time>',
      'time to live: seconds, or with a unit (90s, 15m, 1h, 30d)',
      createSecondsParser(LIMITS.timeToLiveMax),
    )
    .option('--collapse-key <key>', 'replaces pending pushes with the same key')
    .option(
      '--schedule <date>',
      'time to send: a date with a time zone (2030-01-31T18:00:00Z), or unix seconds',
      parseTimestamp,
    )
    .addOption(
      new Option('--priority <priority>', 'wake the device at once, or save its battery').choices([
        'high',
        'normal',
      ]),
    )
    .option('--notification <json>', 'notification for iOS, as --data', parseJsonObjectText)
    .option('--apns <json>', 'fields of APNs, as --data: headers, payload', parseJsonObjectText)
    .option(
      '--fcm <json>',
      'fields of FCM, as --data: android, apns, notification, data, fcm_options',
      parseJsonObjectText,
    )
    .option(
      '--web-push <json>',
      'fields of Web Push, as --data: headers, payload',
      parseJsonObjectText,
    )
    .option('--content-available', 'wakes iOS apps in the background')
    .option('--mutable-content', "runs the iOS app's service extension")
    .option('--active-within <time>', 'only subscribers seen since (1h, 30d)', parseActiveWithin)
    .option(
      '--idempotency-key <key>',
      'idempotency key: a repeat with the same key and options sends no second push',
      parseIdempotencyKey,
    )
    .action(async (options: SendOptions) => {
      const { idempotencyKey: key } = options;
      const idempotency = key !== undefined && { idempotencyKey: key };
      const body = buildSendBody(options);
      const request = { method: 'POST', path: '/push', body, ...idempotency } as const;
      const text =
        options.app === undefined
          ? await requestWithKey(stack(), request)
          : await acceptDirectly(stack(), options.app, { text: body, idempotencyKey: key });
      output.showText(text, describeSendResponse(text));
    });
}

/** Returns a response of the API's form, without its warnings. */
async function acceptDirectly(target: Stack, app: string, push: PushText): Promise<string> {
  // Its libraries would take memory of every other command, such as an import of a million devices.
  const { sendDirectly } = await import('./send-directly.ts');
  const { id, info } = await sendDirectly(target, app, push);
  return JSON.stringify({ success: true, id, info });
}

function addStatusCommand(push: Command, { stack, output }: CommandContext): void {
  push
    .command('status')
    .description("show a push's status from the API")
    .argument('<id>')
    .action(async (id: string) => {
      const path = `/pushes/${encodeURIComponent(id)}`;
      const text = await requestWithKey(stack(), { method: 'GET', path });
      output.showText(text, describeStatus(id, text));
    });
}

function addDeleteCommand(push: Command, { stack, output }: CommandContext): void {
  push
    .command('delete')
    .description('delete a push through the API: no further device gets it')
    .argument('<id>')
    .action(async (id: string) => {
      const path = `/pushes/${encodeURIComponent(id)}`;
      const text = await requestWithKey(stack(), { method: 'DELETE', path });
      output.showText(text, [`Push ${id} deleted.`]);
    });
}

interface ListOptions extends PagingOptions, Omit<PushFilter, 'from'> {
  app: string;
  since?: Date;
}

function addListCommand(push: Command, { stack, output }: CommandContext): void {
  const list = push
    .command('list')
    .description("list an app's pushes from the database, the newest first")
    .requiredOption('--app <id>', 'the app')
    .addOption(
      new Option(
        '--state <state>',
        'only pushes in this state; those that are scheduled for later are in no other list',
      ).choices(LISTED_STATES),
    )
    .option('--topic <name>', 'only pushes to this topic', parseTopicName)
    .addOption(
      new Option(
        '--outcome <outcome>',
        'only pushes with recipients that ended so; of pushes in delivery only those with failed ones',
      ).choices(ENDS),
    )
    .option('--since <time>', 'only pushes since a date, or since 15m, 1h or 30d', parsePastTime);
  addPaging(list, 'before', 'id').action(async ({ since: from, ...options }: ListOptions) => {
    const { app, state, topic, outcome } = options;
    const query = { state, topic, outcome, from, ...toPageQuery(options) };
    const page = await withAdmin(stack(), (admin) => admin.listPushes(app, query));
    output.show(page.items, formatPage(page, formatPush, 'before'));
  });
}

function parseTopicName(text: string): string {
  if (TOPIC_NAME.test(text)) return text;
  throw new InvalidArgumentError('This is not the name of a topic.');
}

function addOutcomesCommand(push: Command, { stack, output }: CommandContext): void {
  push
    .command('outcomes')
    .description("show the outcomes of a push's recipients from the database")
    .argument('<id>')
    .option('--token <token>', 'only this recipient')
    .action(async (id: string, { token }: { token?: string }) => {
      if (token === undefined) {
        const outcomes = await withAdmin(stack(), (admin) => admin.getPushOutcomes(id));
        output.show(outcomes, formatOutcomes(outcomes));
      } else {
        const status = await withAdmin(stack(), (admin) => admin.getRecipientOutcome(id, token));
        output.show(status, [`Device ${token}: ${describeRecipientStatus(status)}.`]);
      }
    });
}

function requestWithKey(target: Stack, request: ApiRequest): Promise<string> {
  return requestApi(requireSetting(target, 'api'), {
    ...request,
    key: requireSetting(target, 'apiKey'),
  });
}

function parseIdempotencyKey(text: string): string {
  // HTTP strips white space around header values, so the API would receive another key.
  if (/^(?! )[\x20-\x7e]{1,255}(?<! )$/.test(text)) return text;
  throw new InvalidArgumentError(
    'It must be 1 to 255 ASCII characters, without a space at the ends.',
  );
}

/** Builds the body of `POST /push`; JSON texts are inserted unchanged, because parsing would change large numbers. */
function buildSendBody(options: SendOptions): string {
  const { to = [], topic = [], data, notification, apns, fcm, webPush } = options;
  const recipients = [...to, ...topic.map((name) => `/topics/${name}`)];
  if (recipients.length === 0) throw usageError('Give the recipients with --to or --topic.');
  const fields = JSON.stringify({
    to: recipients,
    time_to_live: options.ttl,
    collapse_key: options.collapseKey,
    schedule: options.schedule,
    active_within: options.activeWithin,
    priority: options.priority,
    content_available: options.contentAvailable,
    mutable_content: options.mutableContent,
  });
  const texts = Object.entries({ notification, apns, fcm, web_push: webPush, data })
    .filter(([, json]) => json !== undefined)
    .map(([name, json]) => `"${name}":${json}`);
  return `${fields.slice(0, -1)},${texts.join(',')}}`;
}

const sendResponse = z.object({
  id: z.string(),
  info: z.object({ devices: z.number(), failed: z.array(z.string()).default([]) }),
});

function describeSendResponse(text: string): string[] {
  const { id, info } = sendResponse.parse(JSON.parse(text));
  const accepted = `Push ${id} accepted for ${formatCount(info.devices, 'device')}.`;
  return info.failed.length === 0
    ? [accepted]
    : [accepted, `Unknown device tokens: ${info.failed.join(', ')}`];
}

const statusResponse = z.object({
  push: z.object({
    date: z.number(),
    expiration: z.number(),
    pending_devices: z.array(z.string()),
  }),
});

function describeStatus(id: string, text: string): string[] {
  const { date, expiration, pending_devices } = statusResponse.parse(JSON.parse(text)).push;
  return [
    `Push ${id}: accepted ${formatTimestamp(date)}, expires ${formatTimestamp(expiration)}.`,
    `Pending on ${formatCount(pending_devices.length, 'device')}.`,
    ...pending_devices.map((token) => `  ${token}`),
  ];
}

function formatPush(view: PushView): string {
  const { id, state, date, schedule, devices, outcomes = {}, batches } = view;
  const due = schedule === undefined ? '' : `, scheduled for ${formatTimestamp(schedule)}`;
  const outcomeTexts = Object.entries(outcomes).map(([name, n]) => `, ${n} ${nameOutcome(name)}`);
  const progress =
    batches === undefined
      ? ''
      : `, ${batches.open} of ${formatCount(batches.total, 'batch', 'batches')} open`;
  return `${id}  ${formatTimestamp(date)}${due}  ${state}: ${formatCount(devices, 'device')}${outcomeTexts.join('')}${progress}`;
}

function formatOutcomes(status: Awaited<ReturnType<typeof getPushOutcomes>>): string[] {
  const { id, state, devices, outcomes, recipients, moreRecipients } = status;
  return [
    `Push ${id}: ${state}, ${formatCount(devices, 'device')}.`,
    ...Object.entries(outcomes).map(
      ([name, n]) => `  ${nameOutcome(name).padEnd(OUTCOME_WIDTH)} ${n}`,
    ),
    ...recipients.map(
      ({ token, ...recipientStatus }) => `  ${token}: ${describeRecipientStatus(recipientStatus)}`,
    ),
    ...(moreRecipients > 0
      ? [`  and ${moreRecipients} more for which a provider returned an error`]
      : []),
  ];
}

/** What a pending recipient waits for, by the outcome that the store has. */
const PENDING_NAMES: Record<string, string> = {
  inbox: 'pending (stored)',
  offered: 'pending (at FCM)',
};
const OUTCOME_WIDTH = Math.max(...Object.values(PENDING_NAMES).map(({ length }) => length));

/** Names an outcome as the documents and the console do; a push that is stored for its device is pending. */
function nameOutcome(outcome: string): string {
  return PENDING_NAMES[outcome] ?? outcome;
}

/** Describes a recipient's status in one line. */
export function describeRecipientStatus(recipientStatus: RecipientStatus): string {
  const { outcome, reason, milliseconds, detail, tries, nextTryAt } = recipientStatus;
  const reasonText = reason === undefined ? '' : ` (${reason})`;
  return [
    `${nameOutcome(outcome)}${reasonText}${milliseconds === undefined ? '' : ` after ${milliseconds} ms`}`,
    ...(detail === undefined ? [] : [`provider error "${detail}"`]),
    ...(tries === undefined ? [] : [formatCount(tries, 'attempt')]),
    ...(nextTryAt === undefined ? [] : [`next attempt ${nextTryAt}`]),
  ].join(', ');
}
