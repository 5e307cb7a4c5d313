import { LIMITS } from '@carillon/core/limits';
import { z } from 'zod';
import { strings } from '../http/check.ts';

const INTERRUPTION_LEVELS = ['passive', 'active', 'time-sensitive', 'critical'] as const;
const text = z.string().max(LIMITS.payloadCharacters);

/** Apple's sound dictionary for critical alerts; the specification leaves its fields open. */
const sound = z.union([
  text,
  z.object({
    critical: z.union([z.literal(0), z.literal(1), z.boolean()]).optional(),
    name: text.optional(),
    volume: z.number().min(0).max(1).optional(),
  }),
]);

/** Specification 4.1, `notification`. */
const notification = z
  .object({
    title: text.optional().meta({ description: 'Short description of the purpose.' }),
    body: text.optional().meta({ description: 'Main alert message.' }),
    badge: z.int().min(0).optional().meta({ description: 'Number shown on the app icon.' }),
    sound: sound.optional().meta({
      description: 'File name in the app bundle, or a sound dictionary for critical alerts.',
    }),
    category: text.optional().meta({ description: 'Selects the content extension.' }),
    // Symfony's bridge sends a number.
    thread_id: z
      .union([text, z.number().transform(String)])
      .optional()
      .meta({ description: 'Groups notifications.' }),
    interruption_level: z
      .enum(INTERRUPTION_LEVELS)
      .optional()
      .meta({ description: 'iOS 15 and later; active unless given.' }),
    loc_key: text.optional().meta({ description: 'Localization key of the body.' }),
    loc_args: z.array(text).optional().meta({ description: 'Replacements in loc_key.' }),
    title_loc_key: text.optional().meta({ description: 'Localization key of the title.' }),
    title_loc_args: z
      .array(text)
      .optional()
      .meta({ description: 'Replacements in title_loc_key.' }),
  })
  .meta({ id: 'IosNotification', description: 'What iOS shows.' });

/** Specification 4.1; unknown fields are ignored. */
export const pushBody = z
  .object({
    to: z.union([z.string(), strings], 'must be a string or an array of strings').optional().meta({
      description:
        'A device token, an array of tokens, a topic (`/topics/NAME`), or an array of topics; at most 100,000 tokens and 100 topics. Required unless `tokens` is given; with both, their union counts.',
    }),
    tokens: strings.optional().meta({ description: 'Device tokens, instead of `to` or besides.' }),
    registration_ids: strings.optional().meta({ description: 'Another name of `tokens`.' }),
    data: z.record(z.string(), z.unknown(), 'must be an object').meta({
      description:
        "The payload, at most 4,096 characters as JSON unless the app's limit is another.",
    }),
    time_to_live: z.int().min(0).max(LIMITS.timeToLiveMax).default(LIMITS.timeToLiveDefault).meta({
      description:
        'Seconds for which the push waits for devices that are offline; 0: only those connected now get it.',
    }),
    content_available: z
      .boolean()
      .optional()
      .meta({ description: 'iOS: wakes the app in the background.' }),
    mutable_content: z
      .boolean()
      .optional()
      .meta({ description: 'iOS: runs the service extension.' }),
    notification: notification.optional(),
    schedule: z.int().min(0).optional().meta({
      description: 'When to send: a future unix timestamp in seconds, at most one year ahead.',
    }),
    collapse_key: z.string().min(1).max(LIMITS.collapseKeyCharacters).optional().meta({
      description: 'A newer push with the same key replaces this one where it is still pending.',
    }),
  })
  .meta({ id: 'Push' });
export type PushBody = z.infer<typeof pushBody>;

/** Specification 4.1, the answer. */
export const acceptedBody = z
  .looseObject({
    success: z.literal(true),
    id: z.string().meta({ description: 'The push, for its status and deletion.' }),
    info: z.looseObject({
      devices: z.int().meta({ description: 'How many devices will potentially receive the push.' }),
      failed: z
        .array(z.string())
        .meta({ description: 'Tokens that are not found under the calling app.' }),
    }),
  })
  .meta({ id: 'Accepted' });

/** Specification 4.2, the answer. */
export const statusBody = z
  .looseObject({
    push: z.looseObject({
      date: z.int().meta({ description: 'Creation, unix timestamp in seconds.' }),
      payload: z.record(z.string(), z.unknown()).meta({ description: 'The data that was sent.' }),
      expiration: z.int().meta({ description: 'Expiry, unix timestamp in seconds.' }),
      pending_devices: z.array(z.string()).max(LIMITS.pendingDevices).meta({
        description:
          'Tokens that have not received it yet, of platforms that acknowledge over MQTT.',
      }),
    }),
  })
  .meta({ id: 'PushStatus' });
