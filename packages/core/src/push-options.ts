import { z } from 'zod';
import { LIMITS } from './limits.ts';
import { PROVIDER_FIELD_SCHEMAS } from './provider-field-schemas.ts';
import type { ProviderField, ProviderTexts } from './provider-fields.ts';
import { integer } from './validate.ts';

const INTERRUPTION_LEVELS = ['passive', 'active', 'time-sensitive', 'critical'] as const;
const text = z.string().max(LIMITS.payloadCharacters);

const VOLUME_MESSAGE = 'must be a number from 0 to 1';

/** Sound of a notification. A dictionary is Apple's form for critical alerts; the specification leaves its fields open. */
const sound = z.union([
  text,
  z.object({
    critical: z.union([z.literal(0), z.literal(1), z.boolean()]).optional(),
    name: text.optional(),
    volume: z.number(VOLUME_MESSAGE).min(0, VOLUME_MESSAGE).max(1, VOLUME_MESSAGE).optional(),
  }),
]);

/** Field `notification` of POST /push (specification 4.1). */
export const notification = z
  .object({
    title: text.optional().meta({ description: 'Title of the alert.' }),
    body: text.optional().meta({ description: 'Text of the alert.' }),
    badge: integer(0, Number.MAX_SAFE_INTEGER)
      .optional()
      .meta({ description: 'Number to show on the app icon.' }),
    sound: sound.optional().meta({
      description:
        'Name of a sound file in the app bundle, or a sound dictionary for critical alerts.',
    }),
    category: text
      .optional()
      .meta({ description: 'Notification category, which selects the content extension.' }),
    // Symfony's notifier bridge sends a number.
    thread_id: z
      .union([text, z.number().transform(String)])
      .optional()
      .meta({ description: 'Identifier that groups notifications.' }),
    interruption_level: z
      .enum(INTERRUPTION_LEVELS)
      .optional()
      .meta({ description: 'Interruption level on iOS 15 and later. Defaults to `active`.' }),
    loc_key: text.optional().meta({ description: 'Localization key for the text.' }),
    loc_args: z
      .array(text)
      .optional()
      .meta({ description: 'Values for the placeholders in `loc_key`.' }),
    title_loc_key: text.optional().meta({ description: 'Localization key for the title.' }),
    title_loc_args: z
      .array(text)
      .optional()
      .meta({ description: 'Values for the placeholders in `title_loc_key`.' }),
  })
  .meta({ id: 'IosNotification', description: 'Alert to display on iOS devices.' });

/** Creates the schema of an object that is merged over what a channel makes; `findFieldFault` checks its fields. */
function providerObject(name: ProviderField) {
  const object = z.record(z.string(), z.unknown(), 'must be an object');
  return object.meta({ override: PROVIDER_FIELD_SCHEMAS[name] }).optional();
}

/**
 * The options of a push: what the channels get besides its payload. This is the only list of them: a request is parsed, a push
 * stored, read for sending, sent again and described by it. Each is stored under its name in the request.
 */
export const pushOptions = {
  content_available: z
    .boolean()
    .optional()
    .meta({ description: 'Whether to wake the iOS app in the background.' }),
  mutable_content: z
    .boolean()
    .optional()
    .meta({ description: 'Whether to run the notification service extension of the iOS app.' }),
  notification: notification.optional(),
  collapse_key: z.string().min(1).max(LIMITS.collapseKeyCharacters).optional().meta({
    description:
      'Key that identifies pushes that replace each other. A newer push with the same key replaces this one on each device where it is still pending.',
  }),
  priority: z.enum(['high', 'normal']).optional().meta({
    description:
      'Whether to wake the device at once (`high`), or to save its battery. Defaults to `high` for what shows.',
  }),
  apns: providerObject('apns').meta({
    description: 'Fields merged over what Carillon sends to APNs (RFC 7396: null removes).',
  }),
  fcm: providerObject('fcm').meta({
    description:
      'Fields merged over the message that Carillon sends to FCM (RFC 7396: null removes).',
  }),
  web_push: providerObject('web_push').meta({
    description: 'Fields merged over what Carillon sends to browsers (RFC 7396: null removes).',
  }),
};
const requested = z.object(pushOptions);
type RequestedOptions = z.infer<typeof requested>;
/** The options of a push as they are stored. */
export type PushOptions = Omit<RequestedOptions, keyof ProviderTexts> & ProviderTexts;

/**
 * Returns the options among the fields of a valid request; undefined if it has none.
 *
 * @param texts of those that are merged over what a channel makes
 */
export function pickOptions(
  fields: RequestedOptions,
  texts: ProviderTexts,
): PushOptions | undefined {
  const names = Object.keys(pushOptions) as (keyof PushOptions)[];
  const options: Partial<Record<keyof PushOptions, unknown>> = { ...fields, ...texts };
  const present = names.filter((name) => options[name] !== undefined);
  if (present.length === 0) return undefined;
  return Object.fromEntries(present.map((name) => [name, options[name]])) as PushOptions;
}

/**
 * Checks whether a push only wakes the app: it has `content_available`, and nothing that a device shows or plays. An
 * empty text shows nothing; badge 0 counts, because it removes the number. Apple delivers such a push only as a
 * `background` one, and any other only as an `alert` ("Sending notification requests to APNs", apns-push-type).
 */
export function isWakeOnly({ content_available, notification = {} }: PushOptions): boolean {
  const { title, body, loc_key, title_loc_key, badge, sound } = notification;
  const isShown = badge !== undefined || [title, body, loc_key, title_loc_key, sound].some(Boolean);
  return content_available === true && !isShown;
}
