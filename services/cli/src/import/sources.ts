import type { Platform, ProviderAddress } from '@carillon/core/channels';
import { DEVICE_TOKEN } from '@carillon/core/limits';
import type { ImportedDevice } from '@carillon/store/imports';
import {
  type AppleSettings,
  type LineFields,
  parseApnsAddress,
  parseAuthDigest,
  parseBrowserAddress,
  parseDate,
  parseFcmAddress,
  parseFlag,
  parsePlatform,
  parsePushKind,
  parseToken,
  parseTopics,
  quote,
  RefusedLine,
} from './field-parsers.ts';

/** A line of a file: a device with its topics, or only subscriptions of a stored device. */
export type ImportLine =
  | { kind: 'device'; device: ImportedDevice; topics: string[] }
  | { kind: 'subscription'; token: string; topic: string; since?: Date };

type ApnsAddress = Extract<ProviderAddress, { channel: 'apns' }>;

/** Maps the fields of a line. @throws RefusedLine */
type Mapper = (fields: LineFields, apple: AppleSettings) => ImportLine;

/**
 * OneSignal's numbers of device types: iOS and Android have a channel here, and browsers (Chrome, Safari, Firefox, Safari's
 * Web Push) are refused with a reason of their own. Source: documentation.onesignal.com/reference/add-a-device.
 */
const ONESIGNAL_IOS = '0';
const ONESIGNAL_ANDROID = '1';
const ONESIGNAL_BROWSERS = ['5', '7', '8', '17'];

/**
 * ChannelTypes of Amazon Pinpoint that APNs serves. The other one with a channel here is GCM, which is FCM. Source:
 * docs.aws.amazon.com/pinpoint/latest/apireference/apps-application-id-endpoints-endpoint-id.html.
 */
const PINPOINT_APNS = new Map<string, Pick<ApnsAddress, 'environment' | 'kind'>>([
  ['APNS', { environment: 'production' }],
  ['APNS_SANDBOX', { environment: 'development' }],
  ['APNS_VOIP', { environment: 'production', kind: 'voip' }],
  ['APNS_VOIP_SANDBOX', { environment: 'development', kind: 'voip' }],
]);

/** Sources of files, each with the columns or fields that it reads (docs/use/export-and-import.md). */
export const SOURCES = {
  carillon: mapCarillonDevice,
  subscriptions: mapSubscription,
  pushy: mapPushyDevice,
  onesignal: mapOneSignalSubscription,
  pinpoint: mapPinpointEndpoint,
  fcm: mapFcmToken,
  apns: (fields, apple) =>
    asDevice({ platform: 'ios', provider: parseApnsAddress(required(fields, 'token'), apple) }),
} as const satisfies Record<string, Mapper>;
export type Source = keyof typeof SOURCES;

/** Sources whose files may be a list of tokens without a head. */
export const LIST_SOURCES: readonly Source[] = ['fcm', 'apns'];
/** Sources whose Android devices may be reached over FCM alone, until their app connects to Carillon. */
export const FCM_SOURCES: readonly Source[] = ['fcm', 'onesignal', 'pinpoint'];
/** Sources that write NDJSON into files of any name. */
export const NDJSON_SOURCES: readonly Source[] = ['pinpoint'];
/** Sources that are written by `carillon export`, with guarded fields in CSV. */
export const OWN_SOURCES: readonly Source[] = ['carillon', 'subscriptions'];

function asDevice(device: ImportedDevice, topics: string[] = []): ImportLine {
  return { kind: 'device', device, topics };
}

function required(fields: LineFields, name: string): string {
  const value = fields(name);
  if (value === undefined) throw new RefusedLine(`no ${name}`);
  return value;
}

function mapFcmToken(fields: LineFields): ImportLine {
  const platform = parsePlatform(fields('platform') ?? 'android');
  if (platform !== 'android' && platform !== 'ios')
    throw new RefusedLine(`a device of the platform ${platform} is not reached over FCM`);
  return asDevice({ platform, provider: parseFcmAddress(required(fields, 'token'), platform) });
}

function datesOf(
  fields: LineFields,
  registered: string,
  active = 'last_active',
): Partial<ImportedDevice> {
  const registeredAt = parseDate(registered, fields(registered));
  const lastActiveAt = parseDate(active, fields(active));
  return { ...(registeredAt && { registeredAt }), ...(lastActiveAt && { lastActiveAt }) };
}

function mapCarillonDevice(fields: LineFields): ImportLine {
  const platform = parsePlatform(fields('platform'));
  const provider = carillonAddress(fields, platform);
  const since = parseDate('address_date', fields('address_date'));
  const authDigest = parseAuthDigest(undefined, fields('auth_sha256'));
  const expiresAt = parseDate('expires', fields('expires'));
  return asDevice({
    token: parseToken(fields('token')),
    platform,
    ...datesOf(fields, 'date'),
    ...(provider && { provider: { ...provider, ...(since && { since }) } }),
    ...(authDigest !== undefined && { authDigest }),
    ...(expiresAt && { expiresAt }),
    ...goneFlagsOf(fields),
  });
}

function goneFlagsOf(fields: LineFields): Partial<ImportedDevice> {
  return {
    ...(parseFlag('uninstalled', fields('uninstalled')) && { uninstalled: true }),
    ...(parseFlag('unsubscribed', fields('unsubscribed')) && { unsubscribed: true }),
  };
}

function carillonAddress(fields: LineFields, platform: Platform): ProviderAddress | undefined {
  const [channel, address = ''] = [fields('channel'), fields('address')];
  if (channel === undefined) return undefined;
  if (channel === 'fcm') return parseFcmAddress(address, platform);
  if (channel === 'web-push') return parseBrowserAddress(address, fields('p256dh'), fields('auth'));
  const environment = fields('environment');
  const isKnown = environment === 'development' || environment === 'production';
  if (channel === 'apns' && isKnown)
    return {
      ...parseApnsAddress(address, { environment, bundle: fields('bundle') }),
      ...parsePushKind(fields('push_kind')),
    };
  throw new RefusedLine(`unknown channel or environment of the address: ${quote(channel)}`);
}

function mapSubscription(fields: LineFields): ImportLine {
  const [topic, ...others] = parseTopics(fields('topic'));
  if (topic === undefined || others.length > 0) throw new RefusedLine('not one topic');
  const since = parseDate('date', fields('date'));
  const token = parseToken(fields('token'));
  return { kind: 'subscription', token, topic, ...(since && { since }) };
}

/** Objects of Pushy's response around fields of a device. A file of another origin has the fields without them. */
const PUSHY_OBJECTS = ['', 'device.', 'presence.'];

/**
 * The fields of Pushy's GET /devices/:token, flat or nested, beside the token of the request. Pushy has no export.
 * Source: pushy.me/docs/api/device.
 */
function mapPushyDevice(line: LineFields, apple: AppleSettings): ImportLine {
  const names = (name: string) =>
    PUSHY_OBJECTS.flatMap((path) => [path + name, `${path}${name}.date`]);
  const fields: LineFields = (name) => names(name).flatMap((path) => line(path) ?? [])[0];
  const platform = parsePlatform(fields('platform'));
  const provider = pushyAddress(fields, platform, apple);
  const authDigest = parseAuthDigest(fields('auth'), undefined);
  if (platform === 'web')
    throw new RefusedLine('the subscription of a browser is bound to the keys of its service');
  return asDevice(
    {
      token: parseToken(fields('token')),
      platform,
      ...datesOf(fields, 'date'),
      ...(provider && { provider }),
      ...(authDigest !== undefined && { authDigest }),
      ...goneFlagsOf(fields),
    },
    parseTopics(fields('subscriptions') ?? fields('topics')),
  );
}

function pushyAddress(
  fields: LineFields,
  platform: Platform,
  apple: AppleSettings,
): ProviderAddress | undefined {
  const [fcm, apns] = [fields('fcm_token'), fields('apns_token')];
  if (platform === 'ios' && apns !== undefined) return parseApnsAddress(apns, apple);
  const isPhone = platform === 'android' || platform === 'ios';
  return isPhone && fcm !== undefined ? parseFcmAddress(fcm, platform) : undefined;
}

/**
 * A line of OneSignal's CSV export of subscriptions: `id` is that of the subscription, `identifier` its push token, and
 * `invalid_identifier` is `t` for one that is unsubscribed. Source: documentation.onesignal.com/reference/csv-export, and
 * the columns with their meanings in DefaultApi.md of github.com/OneSignal/onesignal-node-api.
 */
function mapOneSignalSubscription(fields: LineFields, apple: AppleSettings): ImportLine {
  const type = required(fields, 'device_type');
  if (ONESIGNAL_BROWSERS.includes(type))
    throw new RefusedLine('the subscription of a browser is bound to the keys of its service');
  if (type !== ONESIGNAL_IOS && type !== ONESIGNAL_ANDROID)
    throw new RefusedLine(`device_type ${quote(type)} has no channel here`);
  if (parseFlag('invalid_identifier', fields('invalid_identifier')))
    throw new RefusedLine('unsubscribed');
  const identifier = required(fields, 'identifier');
  const platform = type === ONESIGNAL_IOS ? 'ios' : 'android';
  return asDevice({
    token: parseToken(fields('id')),
    platform,
    provider:
      platform === 'ios'
        ? parseApnsAddress(identifier, apple)
        : parseFcmAddress(identifier, platform),
    ...datesOf(fields, 'created_at'),
  });
}

/** A line of the endpoints that Amazon Pinpoint exported: an endpoint as its API returned it. */
function mapPinpointEndpoint(fields: LineFields, { bundle }: AppleSettings): ImportLine {
  const type = required(fields, 'ChannelType');
  const apns = PINPOINT_APNS.get(type);
  if (apns === undefined && type !== 'GCM')
    throw new RefusedLine(`ChannelType ${quote(type)} has no channel here`);
  if ((fields('OptOut') ?? 'NONE') !== 'NONE') throw new RefusedLine('opted out');
  if ((fields('EndpointStatus') ?? 'ACTIVE') !== 'ACTIVE') throw new RefusedLine('inactive');
  const address = required(fields, 'Address');
  const isApple = apns !== undefined || /^ios$/i.test(fields('Demographic.Platform') ?? '');
  const platform = isApple ? 'ios' : 'android';
  const id = fields('Id');
  return asDevice({
    // Pinpoint made base64 ids for endpoints that were imported into it; these may have characters that no token has.
    ...(id !== undefined && DEVICE_TOKEN.test(id) && { token: id }),
    platform,
    provider:
      apns === undefined
        ? parseFcmAddress(address, platform)
        : { ...parseApnsAddress(address, { environment: apns.environment, bundle }), ...apns },
    ...datesOf(fields, 'CreationDate', 'EffectiveDate'),
  });
}
