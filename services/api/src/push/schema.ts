import { LIMITS } from '@carillon/core/limits';
import { z } from 'zod';

/** Response of POST /push (specification 4.1). */
export const acceptedResponse = z
  .looseObject({
    success: z.literal(true),
    id: z.string().meta({ description: 'Unique identifier of the push.' }),
    info: z.looseObject({
      devices: z.int().meta({ description: 'Number of devices that can receive the push.' }),
      failed: z
        .array(z.string())
        .meta({ description: 'Device tokens that do not belong to a device of the app.' }),
      warnings: z.array(z.string()).optional().meta({
        description:
          'Ignored fields that resemble known ones or belong to other services, with the name to use, and fields of `data` that a channel replaces with its own. Also whether Apple refuses pushes to Safari because Web Push has no contact.',
      }),
    }),
  })
  .meta({ id: 'Accepted' });

/** Response of GET /pushes/<push_id> (specification 4.2). */
export const pushStatusResponse = z
  .looseObject({
    push: z.looseObject({
      date: z.int().meta({
        description: 'Time at which the push was created, as a Unix timestamp in seconds.',
      }),
      payload: z.record(z.string(), z.unknown()).meta({ description: 'Payload of the push.' }),
      expiration: z
        .int()
        .meta({ description: 'Time at which the push expires, as a Unix timestamp in seconds.' }),
      pending_devices: z.array(z.string()).max(LIMITS.pendingDevices).meta({
        description:
          'Tokens of the devices that have not received the push yet. Lists only platforms that acknowledge pushes over MQTT.',
      }),
    }),
  })
  .meta({ id: 'PushStatus' });
