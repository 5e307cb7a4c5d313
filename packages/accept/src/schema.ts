import { LIMITS } from '@carillon/core/limits';
import { pushOptions } from '@carillon/core/push-options';
import { integer, stringArray } from '@carillon/core/validate';
import { z } from 'zod';

/** Request body of POST /push (specification 4.1). Unknown fields are ignored. */
export const pushBody = z
  .object({
    to: z
      .union([z.string(), stringArray], 'must be a string or an array of strings')
      .optional()
      .meta({
        description:
          'Recipients of the push: a device token, a topic (`/topics/NAME`), or an array of them. At most 100,000 tokens, repeated ones and those of `tokens` included, and 100 topics. Required unless `tokens` is set. If both are set, the push goes to the recipients of both.',
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
    active_within: integer(LIMITS.activeSecondsMin, LIMITS.activeSecondsMax).optional().meta({
      description:
        'Sends only to subscribers that were seen in the last so many seconds before the push is sent: they registered, connected, or are connected then. In an app that prunes idle devices, a push that their provider has accepted counts as well, to a day. A request of the device to `/devices/auth`, `/devices/token`, `/devices/subscribe` or `/devices/unsubscribe` counts to six days. Only for topics.',
    }),
    ...pushOptions,
    schedule: integer(0, Number.MAX_SAFE_INTEGER).optional().meta({
      description:
        'Time to send the push, as a future Unix timestamp in seconds, at most one year ahead.',
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
