import { LIMITS } from '@carillon/core/limits';
import type { AppSettings } from '@carillon/store/apps';
import type { AppDocument } from '@carillon/store/documents';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { collected, wholeNumber } from './arguments.ts';

const MOST_CHARACTERS = 1_000_000;
const MOST_FALLBACK_SECONDS = 86_400;
const MOST_REGISTRATIONS = 1_000_000_000;

/** The options of `app set` as they come in. */
export interface SettingOptions {
  payloadLimit?: number;
  dataString?: 'on' | 'off';
  registration?: 'open' | 'closed';
  registrationsPerHour?: number | 'unlimited';
  fcmFallback?: number | 'off';
  bundleId?: string[];
  webHost?: string[];
}

/** Adds an option for each setting of an app. */
export function addSettingOptions(command: Command): Command {
  return command
    .option(
      '--payload-limit <characters>',
      `most characters of a push's data (${LIMITS.payloadCharacters} unless set)`,
      wholeNumber(1, MOST_CHARACTERS),
    )
    .addOption(
      new Option('--data-string <switch>', 'whether data may come as a JSON string').choices([
        'on',
        'off',
      ]),
    )
    .addOption(
      new Option('--registration <state>', 'whether new devices may register').choices([
        'open',
        'closed',
      ]),
    )
    .option(
      '--registrations-per-hour <number>',
      `most new devices an hour, or unlimited (${LIMITS.registrationsPerAppHour} unless set)`,
      registrationsPerHour,
    )
    .option(
      '--fcm-fallback <seconds>',
      'after how long Android devices that have not acknowledged get a push over FCM, or off',
      fcmFallback,
    )
    .option('--bundle-id <ids>', 'bundle ids by which iOS apps may name themselves', collected)
    .option('--web-host <hosts>', 'host names by which sites may name themselves', collected);
}

function fcmFallback(text: string): number | 'off' {
  return text === 'off' ? text : wholeNumber(0, MOST_FALLBACK_SECONDS)(text);
}

function registrationsPerHour(text: string): number | 'unlimited' {
  if (text === 'unlimited') return text;
  try {
    return wholeNumber(1, MOST_REGISTRATIONS)(text);
  } catch {
    throw new InvalidArgumentError('It must be a whole number from 1, or unlimited.');
  }
}

/** The settings that the given options ask for. */
export function settingsOf(options: SettingOptions): AppSettings {
  const {
    payloadLimit,
    dataString,
    registration,
    fcmFallback: fallback,
    bundleId,
    webHost,
  } = options;
  const perHour = options.registrationsPerHour;
  return {
    ...(payloadLimit !== undefined && { payloadLimit }),
    ...(dataString !== undefined && { dataString: dataString === 'on' }),
    ...(registration !== undefined && { registrationClosed: registration === 'closed' }),
    ...(perHour !== undefined && {
      registrationsPerHour: perHour === 'unlimited' ? null : perHour,
    }),
    ...(fallback !== undefined && { fcmFallbackSeconds: fallback === 'off' ? null : fallback }),
    ...(bundleId !== undefined && { bundleIds: bundleId }),
    ...(webHost !== undefined && { webHosts: webHost }),
  };
}

/** An app as it is shown. */
export function appView(app: AppDocument) {
  return {
    id: app._id,
    account: app.account,
    name: app.name,
    payloadLimit: app.payloadLimit ?? LIMITS.payloadCharacters,
    dataString: app.dataString ?? false,
    registration: app.registrationClosed === true ? 'closed' : 'open',
    registrationsPerHour:
      app.registrationsPerHour === undefined
        ? LIMITS.registrationsPerAppHour
        : app.registrationsPerHour,
    fcmFallback: app.fcmFallbackSeconds ?? 'off',
    bundleIds: app.bundleIds ?? [],
    webHosts: app.webHosts ?? [],
    createdAt: app.createdAt.toISOString(),
  };
}

/** The same for a person, a line each. */
export function appLines(view: ReturnType<typeof appView>): string[] {
  const names = [...view.bundleIds, ...view.webHosts];
  return [
    `App ${view.id} (${view.name}) of account ${view.account}, made ${view.createdAt}.`,
    `Payload limit: ${view.payloadLimit} characters; data as a JSON string: ${view.dataString ? 'on' : 'off'}.`,
    `Registration: ${view.registration}, ${view.registrationsPerHour ?? 'unlimited'} an hour.`,
    `Fallback over FCM: ${view.fcmFallback === 'off' ? 'off' : `after ${view.fcmFallback} s`}.`,
    ...(names.length === 0 ? [] : [`Known to devices as ${names.join(', ')}.`]),
  ];
}
