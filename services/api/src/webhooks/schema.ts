import { CHANNELS, PLATFORMS } from '@carillon/core/channels';
import { FAILURES } from '@carillon/core/outcomes';
import { integer } from '@carillon/core/validate';
import { WEBHOOK_EVENTS, WEBHOOK_LIMITS } from '@carillon/core/webhooks';
import { z } from 'zod';

const events = z.array(z.enum(WEBHOOK_EVENTS)).min(1).max(WEBHOOK_EVENTS.length);

/** Request body of POST /webhooks. */
export const addWebhookRequest = z
  .object({
    url: z
      .string()
      .max(WEBHOOK_LIMITS.addressCharacters)
      .meta({ description: 'Address of the receiver: https, with a public address.' }),
    events: events.optional().meta({ description: 'Events to send. All if absent.' }),
  })
  .meta({ id: 'AddWebhookRequest' });

/** Request body of PATCH /webhooks/<webhook_id>. */
export const editWebhookRequest = z
  .object({
    url: z
      .string()
      .max(WEBHOOK_LIMITS.addressCharacters)
      .optional()
      .meta({ description: 'New address of the receiver. As before if absent.' }),
    events: events
      .optional()
      .meta({ description: 'Events to send from now on. As before if absent.' }),
  })
  .refine(({ url, events }) => url !== undefined || events !== undefined, {
    path: ['url'],
    error: 'may be absent only if `events` is given',
  })
  .meta({ id: 'EditWebhookRequest', minProperties: 1 });

const seconds = (description: string) => integer(0, Number.MAX_SAFE_INTEGER).meta({ description });

/** Request body of POST /webhooks/<webhook_id>/replay. */
export const replayRequest = z
  .object({
    from: seconds(
      'Unix timestamp in seconds; pushes accepted since then, or scheduled for a time since then, are reported again.',
    ),
    to: seconds(
      'Unix timestamp in seconds; pushes accepted before then, or scheduled for a time before then, are reported again.',
    ),
    after: z
      .string()
      .regex(/^[0-9a-f]{24}$/, 'must be the value of `last` of the previous response')
      .optional()
      .meta({ description: 'The value of `last` of the previous response, to continue.' }),
  })
  .meta({ id: 'ReplayWebhookRequest' });

const time = z.string().meta({ description: 'Time in ISO 8601.' });
const webhook = z
  .looseObject({
    id: z.string(),
    host: z.string().meta({ description: 'Host of the address; the address itself is not shown.' }),
    events,
    state: z.enum(['on', 'failing', 'off']),
    reason: z.enum(['operator', 'gone', 'failing']).optional().meta({
      description:
        'Reason why the webhook is off: turned off, a response with 410, or failures for five days.',
    }),
    offAt: time.optional(),
    createdAt: time,
    failures: z.int().optional().meta({ description: 'Failed requests in a row.' }),
    failingSince: time.optional(),
    retryAt: time.optional(),
    last: z
      .looseObject({ at: time, status: z.int().optional(), error: z.string().optional() })
      .optional()
      .meta({ description: 'Last response that was recorded, or the reason why there was none.' }),
    lastSuccessAt: time.optional(),
    previousSecretEndsAt: time.optional().meta({
      description:
        'Set by a rotation: until then, requests are signed with the previous secret too.',
    }),
    dropped: z.int().optional().meta({
      description: 'Events that were removed before they could be sent.',
    }),
  })
  .meta({ id: 'Webhook' });

const secret = z.string().meta({ description: 'Secret of the signatures. Shown only once.' });

/** Response of POST /webhooks. */
export const addedWebhookResponse = z.looseObject({ webhook, secret }).meta({ id: 'AddedWebhook' });
/** Response of PATCH /webhooks/<webhook_id>. */
export const editedWebhookResponse = z.looseObject({ webhook }).meta({ id: 'EditedWebhook' });
/** Response of GET /webhooks. */
export const webhooksResponse = z
  .looseObject({ webhooks: z.array(webhook) })
  .meta({ id: 'Webhooks' });
/** Response of POST /webhooks/<webhook_id>/rotate. */
export const rotatedResponse = z.looseObject({ secret }).meta({ id: 'RotatedWebhook' });
/** Response of POST /webhooks/<webhook_id>/replay. */
export const replayedResponse = z
  .looseObject({
    pushes: z.int().meta({ description: 'Pushes that this request has marked.' }),
    last: z.string().optional().meta({
      description: 'Set if there are more pushes: repeat the request with this value as `after`.',
    }),
  })
  .meta({ id: 'ReplayedWebhook' });

const text = z.string().optional();
/** Data of an event; its type determines the fields. */
export const webhookEventData = z
  .looseObject({
    push: text.meta({ description: 'The push, for events of pushes and recipients.' }),
    token: text.meta({ description: 'The device, for events of recipients and devices.' }),
    channel: z.enum(CHANNELS).optional(),
    reason: z.enum(FAILURES).optional(),
    detail: text.meta({ description: "The provider's own words." }),
    milliseconds: z.int().optional().meta({
      description: 'From acceptance, or the due time, to the receipt.',
    }),
    final: z.boolean().optional().meta({
      description: 'False while the outcome of the recipient may still change.',
    }),
    state: z.enum(['finished', 'expired', 'deleted']).optional().meta({
      description: 'How the push has ended.',
    }),
    devices: z.int().optional(),
    outcomes: z.record(z.string(), z.int()).optional().meta({
      description: 'Recipients of the push by outcome.',
    }),
    finishedAt: text.meta({ description: 'Set if the push was delivered to all.' }),
    platform: z.enum(PLATFORMS).optional(),
    registeredAt: text,
    replaces: text.meta({
      description: 'The device whose provider address a registered device has taken over.',
    }),
    app: text.meta({ description: 'The app, for a test event.' }),
  })
  .meta({ id: 'WebhookEventData' });

/** Body of the requests to receivers. */
export const webhookEvents = z
  .looseObject({
    type: z.literal('events'),
    app: z.string().meta({ description: 'Identifier of the app.' }),
    events: z
      .array(
        z
          .looseObject({
            id: z.string().meta({ description: 'The same when the event is sent again.' }),
            type: z.enum([...WEBHOOK_EVENTS, 'test']),
            data: webhookEventData,
          })
          .meta({ id: 'WebhookEvent' }),
      )
      .max(WEBHOOK_LIMITS.eventsPerRequest),
  })
  .meta({ id: 'WebhookEvents' });
