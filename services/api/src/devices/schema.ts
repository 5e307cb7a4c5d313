import { LIMITS } from '@carillon/core/limits';
import { PLATFORMS } from '@carillon/core/platforms';
import { z } from 'zod';

/** Specification 4.5. */
export const presenceRequest = z
  .object({
    tokens: z
      .array(z.string())
      .min(1)
      .max(LIMITS.tokensPerPresence)
      .meta({ description: 'Device tokens.' }),
  })
  .meta({ id: 'PresenceRequest' });

const seconds = z.int().meta({ description: 'Unix timestamp in seconds.' });
const uninstalled = z
  .literal(true)
  .optional()
  .meta({ description: 'The app was uninstalled, as a failed send has shown.' });
const unsubscribed = z
  .literal(true)
  .optional()
  .meta({ description: 'The browser has unsubscribed, as a failed send has shown.' });

/** Specification 4.5, the answer. */
export const presenceBody = z
  .looseObject({
    presence: z.array(
      z.looseObject({
        id: z.string().meta({ description: 'Device token.' }),
        online: z.boolean(),
        last_active: seconds,
        uninstalled,
        unsubscribed,
      }),
    ),
  })
  .meta({ id: 'Presence' });

/** Specification 4.4, the answer. */
export const deviceBody = z
  .looseObject({
    device: z.looseObject({ date: seconds, platform: z.enum(PLATFORMS) }),
    subscriptions: z.array(z.string()).meta({ description: 'Topics.' }),
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
