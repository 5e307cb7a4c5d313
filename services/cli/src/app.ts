import { type AppView, normalizeBundleId, normalizeWebHost } from '@carillon/admin/apps';
import { LIMITS } from '@carillon/core/limits';
import type { AppSettings } from '@carillon/store/apps';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { withAdmin } from './admin/with-admin.ts';
import { usageError } from './failure.ts';
import { createIntegerParser, createNameCollector, createSecondsParser } from './option-parsers.ts';
import { addPaging, formatPage, type PagingOptions, toPageQuery } from './paging.ts';
import type { CommandContext } from './stack.ts';

const MAX_PAYLOAD_CHARACTERS = 1_000_000;
const MAX_FALLBACK_SECONDS = 86_400;
const MAX_REGISTRATIONS_PER_HOUR = 1_000_000_000;

/** Adds `carillon app …`: the tenants that own devices, topics and pushes. */
export function addAppCommands(program: Command, { stack, output }: CommandContext): void {
  const app = program.command('app').description('manage apps: tenants and their settings');

  app
    .command('create')
    .description(
      'create an app with its first API key, which is shown only once, and a key pair for Web Push',
    )
    .argument('<name>')
    .requiredOption('--account <id>', 'account of the app')
    .action(async (name: string, { account }: { account: string }) => {
      const created = await withAdmin(stack(), (admin) => admin.createApp({ name, account }));
      output.show(created, [
        `App ${created.id} created.`,
        `API key, shown only once: ${created.apiKey}`,
      ]);
    });
  app
    .command('show')
    .description('show an app and its settings')
    .argument('<id>')
    .action(async (id: string) => {
      const view = await withAdmin(stack(), (admin) => admin.getApp(id));
      output.show(view, formatApp(view));
    });
  addPaging(
    app
      .command('list')
      .description('list apps in order of id')
      .option('--account <id>', 'only apps of this account'),
    'after',
    'id',
  ).action(async (options: PagingOptions & { account?: string }) => {
    const query = { ...toPageQuery(options), account: options.account };
    const page = await withAdmin(stack(), (admin) => admin.listApps(query));
    const format = (view: AppView) => `${view.id}  account ${view.account}  ${view.name}`;
    output.show(page.items, formatPage(page, format, 'after'));
  });
  for (const { name, paused, description, done } of PAUSE_COMMANDS) {
    app
      .command(name)
      .description(description)
      .argument('<id>')
      .action(async (id: string) => {
        const view = await withAdmin(stack(), (admin) => admin.setAppPaused(id, paused));
        output.show(view, [`App ${view.id} (${view.name}) ${done}`]);
      });
  }
  addSettingOptions(
    app.command('set').description('change settings of an app').argument('<id>'),
  ).action(async (id: string, options: SettingOptions) => {
    if (Object.keys(options).length === 0) {
      throw usageError('Give at least one setting, for example --payload-limit 8192.');
    }
    const settings = toAppSettings(options);
    const view = await withAdmin(stack(), (admin) => admin.updateAppSettings(id, settings));
    const lines = view.warning === undefined ? [] : [`Warning: ${view.warning}`];
    output.show(view, [...formatApp(view), ...lines]);
  });
}

const PAUSE_COMMANDS = [
  {
    ...{ name: 'pause', paused: true },
    description:
      'hold the deliveries of an app back: pushes are accepted and expire meanwhile, and devices still get what their inbox holds',
    done: 'is paused; its deliveries stop within seconds.',
  },
  {
    ...{ name: 'resume', paused: false },
    description: 'deliver the pushes of a paused app again',
    done: 'is not paused; its deliveries go on within seconds.',
  },
] as const;

/** Options of `app set` as the parser returns them. */
interface SettingOptions {
  payloadLimit?: number;
  dataString?: 'on' | 'off';
  registration?: 'open' | 'closed';
  registrationsPerHour?: number | 'unlimited';
  fcmFallback?: number | 'first' | 'off';
  fcmNotification?: 'on' | 'off';
  /** False removes all. */
  bundleId?: string[] | false;
  webHost?: string[] | false;
  pruneAfterDays?: number | 'off';
}

function addSettingOptions(command: Command): Command {
  return command
    .option(
      '--payload-limit <characters>',
      `maximum length of a push's data (default ${LIMITS.payloadCharacters})`,
      createIntegerParser(1, MAX_PAYLOAD_CHARACTERS),
    )
    .addOption(
      new Option('--data-string <switch>', 'whether data can also be a JSON string').choices([
        'on',
        'off',
      ]),
    )
    .addOption(
      new Option('--registration <state>', 'whether new devices can register').choices([
        'open',
        'closed',
      ]),
    )
    .option(
      '--registrations-per-hour <number>',
      `maximum number of new devices per hour, or unlimited (default ${LIMITS.registrationsPerAppHour})`,
      parseRegistrationsPerHour,
    )
    .option(
      '--fcm-fallback <time>',
      'time until a push that an Android device has not acknowledged is also sent over FCM (30, 30s, 5m), first (FCM at once, and its acceptance ends the push), or off',
      parseFcmFallback,
    )
    .addOption(
      new Option(
        '--fcm-notification <switch>',
        'whether messages of FCM show title and message of the payload as a notification',
      ).choices(['on', 'off']),
    )
    .option(
      '--bundle-id <ids>',
      'bundle ids that iOS apps can register with instead of the app id; replaces the previous ones',
      createNameCollector(normalizeBundleId),
    )
    .option('--no-bundle-id', 'remove all bundle ids')
    .option(
      '--web-host <hosts>',
      'host names that sites can register with instead of the app id; replaces the previous ones',
      createNameCollector(normalizeWebHost),
    )
    .option('--no-web-host', 'remove all host names')
    .option(
      '--prune-after-days <days>',
      `delete devices that were not seen for so many days (${LIMITS.pruneDaysMin} to ${LIMITS.pruneDaysMax}), or off`,
      parsePruneAfterDays,
    );
}

function parsePruneAfterDays(text: string): number | 'off' {
  return text === 'off'
    ? text
    : createIntegerParser(LIMITS.pruneDaysMin, LIMITS.pruneDaysMax)(text);
}

function parseFcmFallback(text: string): number | 'first' | 'off' {
  if (text === 'off' || text === 'first') return text;
  return createSecondsParser(MAX_FALLBACK_SECONDS)(text);
}

function parseRegistrationsPerHour(text: string): number | 'unlimited' {
  if (text === 'unlimited') return text;
  try {
    return createIntegerParser(1, MAX_REGISTRATIONS_PER_HOUR)(text);
  } catch {
    throw new InvalidArgumentError('It must be a whole number from 1, or unlimited.');
  }
}

function toAppSettings(options: SettingOptions): AppSettings {
  const { payloadLimit, dataString, registration, fcmFallback, fcmNotification } = options;
  const { registrationsPerHour: perHour, bundleId: bundleIds, webHost: webHosts } = options;
  const { pruneAfterDays } = options;
  return {
    ...(payloadLimit !== undefined && { payloadLimit }),
    ...(dataString !== undefined && { dataString: dataString === 'on' }),
    ...(registration !== undefined && { registrationClosed: registration === 'closed' }),
    ...(perHour !== undefined && {
      registrationsPerHour: perHour === 'unlimited' ? null : perHour,
    }),
    ...(fcmFallback !== undefined && { fcm: fcmFallback === 'off' ? null : fcmFallback }),
    ...(fcmNotification !== undefined && { fcmNotification: fcmNotification === 'on' }),
    ...(bundleIds !== undefined && { bundleIds: bundleIds || [] }),
    ...(webHosts !== undefined && { webHosts: webHosts || [] }),
    ...(pruneAfterDays !== undefined && {
      pruneAfterDays: pruneAfterDays === 'off' ? null : pruneAfterDays,
    }),
  };
}

function describeFcm(use: AppView['fcmFallback']): string {
  if (typeof use === 'string') return use;
  return `as the fallback after ${use} s`;
}

function formatApp(view: AppView): string[] {
  const names = [...view.bundleIds, ...view.webHosts];
  return [
    `App ${view.id} (${view.name}) of account ${view.account}, created ${view.createdAt}.`,
    `Payload limit: ${view.payloadLimit} characters; data as a JSON string: ${view.dataString ? 'on' : 'off'}.`,
    ...(view.paused ? ['Paused: its deliveries wait.'] : []),
    `Registration: ${view.registration}, ${view.registrationsPerHour ?? 'unlimited'} per hour.`,
    `FCM for Android: ${describeFcm(view.fcmFallback)}; notifications over FCM: ${view.fcmNotification ? 'on' : 'off'}.`,
    ...(view.pruneAfterDays === null
      ? []
      : [`Devices not seen for ${view.pruneAfterDays} days are deleted.`]),
    ...(names.length === 0 ? [] : [`Bundle ids and host names: ${names.join(', ')}.`]),
  ];
}
