import { LIMITS } from '@carillon/core/limits';
import { integer, stringArray } from '@carillon/core/validate';
import { z } from 'zod';

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

/** Request body of POST /push (specification 4.1). Unknown fields are ignored. */
export const pushBody = z
  .object({
    to: z
      .union([z.string(), stringArray], 'must be a string or an array of strings')
      .optional()
      .meta({
        description:
          'Recipients of the push: a device token, a topic (`/topics/NAME`), or an array of them. At most 100,000 tokens and 100 topics. Required unless `tokens` is set. If both are set, the push goes to the recipients of both.',
      }),
    tokens: stringArray
      .optional()
      .meta({ description: 'Device tokens to send to, instead of or in addition to `to`.' }),
    registration_ids: stringArray.optional().meta({ description: 'Alias of `tokens`.' }),
    data: z.record(z.string(), z.unknown(), 'must be an object').meta({
      description:
        'Payload to deliver. Limited to 4,096 characters as JSON unless the app has a different limit.',
    }),
    time_to_live: integer(0, LIMITS.timeToLiveMax).optional().meta({
      description:
        // No `default` in the schema: client generators treat such a field as required.
        'Seconds for which the push is kept for offline devices. Defaults to 2,592,000 (30 days). With 0, only devices that are connected now receive the push.',
    }),
    content_available: z
      .boolean()
      .optional()
      .meta({ description: 'Whether to wake the iOS app in the background.' }),
    mutable_content: z
      .boolean()
      .optional()
      .meta({ description: 'Whether to run the notification service extension of the iOS app.' }),
    notification: notification.optional(),
    schedule: integer(0, Number.MAX_SAFE_INTEGER).optional().meta({
      description:
        'Time to send the push, as a future Unix timestamp in seconds, at most one year ahead.',
    }),
    collapse_key: z.string().min(1).max(LIMITS.collapseKeyCharacters).optional().meta({
      description:
        'Key that identifies pushes that replace each other. A newer push with the same key replaces this one on each device where it is still pending.',
    }),
  })
  .meta({ id: 'Push' });
export type PushBody = z.infer<typeof pushBody>;

/** Successful response of POST /push, as its code builds it. */
export interface AcceptedPush {
  success: true;
  id: string;
  info: { devices: number; failed: string[]; warnings?: string[] };
}
