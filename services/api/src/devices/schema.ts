import { CHANNELS, PLATFORMS } from '@carillon/core/channels';
import { PUSH_KINDS } from '@carillon/core/channels/apns';
import { LIMITS } from '@carillon/core/limits';
import { z } from 'zod';

/** Request body of POST /devices/presence (specification 4.5). */
export const presenceRequest = z
  .object({
    tokens: z
      .array(z.string())
      .min(1)
      .max(LIMITS.tokensPerPresence)
      .meta({ description: 'Tokens of the devices to look up.' }),
  })
  .meta({ id: 'PresenceRequest' });

const seconds = z.int().meta({ description: 'Unix timestamp in seconds.' });
const uninstalled = z
  .literal(true)
  .optional()
  .meta({ description: 'Set if a delivery failed because the app is no longer installed.' });
const unsubscribed = z
  .literal(true)
  .optional()
  .meta({ description: 'Set if a delivery failed because the browser is no longer subscribed.' });

/** Response of POST /devices/presence (specification 4.5). */
export const presenceResponse = z
  .looseObject({
    presence: z.array(
      z.looseObject({
        id: z.string().meta({ description: 'Token of the device.' }),
        online: z.boolean(),
        last_active: seconds,
        uninstalled,
        unsubscribed,
      }),
    ),
  })
  .meta({ id: 'Presence' });

/** Response of GET /devices/<device_token> (specification 4.4). */
export const deviceResponse = z
  .looseObject({
    device: z.looseObject({
      date: seconds,
      platform: z.enum(PLATFORMS),
      way: z
        .enum(CHANNELS)
        .optional()
        .meta({ description: 'Channel by which the device gets its pushes.' }),
      push_kind: z
        .enum(PUSH_KINDS)
        .optional()
        .meta({ description: 'Kind of notifications of its APNs token, if not `alert`.' }),
      expires: seconds.optional().meta({ description: 'Time at which the device is deleted.' }),
      replaced_by: z.string().optional().meta({
        description:
          'Token of the device that has registered the provider address of this one. Pushes to this one still go to the address.',
      }),
      replaces: z.string().optional().meta({
        description: 'Token of the device whose provider address this one has registered.',
      }),
    }),
    subscriptions: z
      .array(z.string())
      .meta({ description: 'Topics that the device is subscribed to.' }),
    presence: z.looseObject({
      online: z.boolean(),
      last_active: z.looseObject({ date: seconds, seconds_ago: z.int().min(0) }),
      uninstalled,
      unsubscribed,
    }),
    pending_notifications: z.array(
      z.looseObject({
        id: z.string(),
        date: seconds,
        payload: z.record(z.string(), z.unknown()),
        expiration: seconds,
      }),
    ),
  })
  .meta({ id: 'Device' });
