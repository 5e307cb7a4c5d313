import { CHANNELS } from '@carillon/core/channels';
import { z } from 'zod';
import { pushHead, recipientLine } from '../outcomes/schema.ts';

const token = z.string().meta({ description: 'Token of the device.' });
const platform = z.string().meta({ description: 'Platform of the device.' });

/** Line of GET /export/devices. */
export const deviceLine = z
  .looseObject({
    token,
    platform,
    date: z.int().meta({ description: 'Time of the registration.' }),
    last_active: z.int().meta({ description: 'Time at which the device was last seen.' }),
    uninstalled: z.literal(true).optional(),
    unsubscribed: z.literal(true).optional(),
    channel: z.enum(CHANNELS).optional().meta({ description: 'Channel of the address.' }),
    address: z.string().optional().meta({ description: 'Address of the device at its provider.' }),
    address_date: z.int().optional().meta({ description: 'Time at which it was registered.' }),
    environment: z.string().optional().meta({ description: 'APNs environment of the address.' }),
    bundle: z.string().optional().meta({ description: 'Bundle ID of the app on the device.' }),
    p256dh: z.string().optional().meta({ description: 'Public key of a browser.' }),
    auth: z.string().optional().meta({ description: 'Authentication secret of a browser.' }),
    auth_sha256: z.string().optional().meta({
      description: 'SHA-256 of the auth key of a device that was imported with one.',
    }),
    push_kind: z
      .string()
      .optional()
      .meta({ description: 'Kind of its APNs token, if not `alert`.' }),
    expires: z.int().optional().meta({ description: 'Time at which the device is deleted.' }),
  })
  .meta({ id: 'DeviceLine' });

/** Line of GET /export/subscriptions. */
export const subscriptionLine = z
  .looseObject({
    topic: z.string().meta({ description: 'Name of the topic.' }),
    token,
    platform,
    date: z.int().meta({ description: 'Time of the subscription.' }),
  })
  .meta({ id: 'SubscriptionLine' });

/** Line of GET /export/pushes. */
export const pushLine = pushHead
  .extend({
    collapse_key: z.string().optional().meta({ description: 'Collapse key of the push.' }),
    payload: z.record(z.string(), z.unknown()).meta({ description: 'Payload of the push.' }),
  })
  .meta({ id: 'PushLine' });

/** Line of GET /export/recipients. */
export const recipientExportLine = recipientLine.meta({ id: 'RecipientLine' });
