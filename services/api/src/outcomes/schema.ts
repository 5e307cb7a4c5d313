import { REPORTED_STATES } from '@carillon/core/batch';
import { CHANNELS } from '@carillon/core/channels';
import { FAILURES, REPORTED_OUTCOMES } from '@carillon/core/outcomes';
import { z } from 'zod';

/** Time of a query: a Unix timestamp in seconds. */
const timestamp = z
  .string()
  .regex(/^\d{1,10}$/, 'must be a Unix timestamp in seconds')
  .transform(Number);

const PUSH_ID = /^[0-9a-f]{24}$/;

const pushPage = z
  .string()
  .regex(PUSH_ID, 'must be the next_page of an earlier response')
  .optional();

/** Query of GET /pushes. */
export const pushListQuery = z.object({
  from: timestamp.optional(),
  to: timestamp.optional(),
  state: z.enum(REPORTED_STATES).optional(),
  page: pushPage,
});

/** Query of GET /devices/<device_token>/pushes. */
export const devicePushesQuery = z.object({ page: pushPage });

/** Query of GET /pushes/<push_id>/recipients. */
export const recipientsQuery = z.object({
  outcome: z.enum(REPORTED_OUTCOMES).optional(),
  page: z.string().optional(),
});

const unixTime = z.int();
const outcome = z.enum(REPORTED_OUTCOMES).meta({ description: 'Outcome of the recipient.' });
const reason = z.enum(FAILURES).optional().meta({ description: 'Reason of a failure.' });
const channel = z.enum(CHANNELS).meta({ description: 'Channel that the outcome is of.' });
const detail = z.string().optional().meta({ description: "The provider's own error." });
const counts = z.record(z.string(), z.int());
const nextPage = z.string().optional().meta({
  description: 'Value of `page` for the next page. Absent on the last page.',
});

/** A push in a list, without its payload. */
export const pushHead = z
  .looseObject({
    id: z.string().meta({ description: 'Identifier of the push.' }),
    state: z.enum(REPORTED_STATES).meta({ description: 'State of the push.' }),
    date: unixTime.meta({ description: 'Time at which the push was accepted.' }),
    schedule: unixTime.optional().meta({ description: 'Time at which the push is or was due.' }),
    expiration: unixTime.meta({ description: 'Time at which the push expires.' }),
    finished: unixTime.optional().meta({ description: 'Time at which no recipient was pending.' }),
    devices: z.int().meta({ description: 'Number of devices that the push was accepted for.' }),
    topics: z.array(z.string()).optional().meta({ description: 'Topics that the request named.' }),
    outcomes: counts.optional().meta({ description: 'Recipients by outcome, once it has ended.' }),
  })
  .meta({ id: 'PushHead' });

/** Response of GET /pushes. */
export const pushListResponse = z
  .looseObject({ pushes: z.array(pushHead), next_page: nextPage })
  .meta({ id: 'PushList' });

/** Response of GET /pushes/<push_id>/outcomes. */
export const outcomesResponse = z
  .looseObject({
    push: pushHead,
    resolved: z.boolean().meta({
      description: 'False while subscribers of the topics are still being added to the recipients.',
    }),
    recipients: z.int().meta({ description: 'Number of recipients so far.' }),
    outcomes: counts.meta({ description: 'Recipients by outcome.' }),
    channels: z.record(z.string(), counts).meta({ description: 'The same for each channel.' }),
    reasons: counts.meta({ description: 'Failed recipients by reason.' }),
    latency: z
      .looseObject({
        count: z.int().meta({ description: 'Number of receipts with a known time.' }),
        p50: z.int(),
        p90: z.int(),
        p99: z.int(),
        max: z.int(),
      })
      .optional()
      .meta({ description: 'Milliseconds from acceptance, or the due time, to the receipt.' }),
    first_receipt: unixTime.optional().meta({ description: 'Time of the first known receipt.' }),
    last_receipt: unixTime.optional().meta({ description: 'Time of the last known receipt.' }),
  })
  .meta({ id: 'PushOutcomes' });

const recipientFields = {
  token: z.string().meta({ description: 'Token of the device.' }),
  outcome,
  reason,
  channel,
  milliseconds: z.int().optional().meta({ description: 'Time to the receipt, if it is known.' }),
  detail,
};

/** A recipient in a list. */
export const recipientLine = z.looseObject(recipientFields);

/** Response of GET /pushes/<push_id>/recipients. */
export const recipientsResponse = z
  .looseObject({
    recipients: z.array(recipientLine.meta({ id: 'Recipient' })),
    next_page: nextPage,
  })
  .meta({ id: 'Recipients' });

const triedRecipient = z
  .looseObject({
    ...recipientFields,
    attempts: z.array(
      z
        .looseObject({
          channel,
          outcome,
          reason,
          detail,
          tries: z.int().optional().meta({ description: 'Number of times that it was deferred.' }),
          next_try: unixTime.optional().meta({ description: 'Time of the next try.' }),
        })
        .meta({ id: 'Attempt' }),
    ),
  })
  .meta({ id: 'RecipientWithAttempts' });

/** Response of GET /pushes/<push_id>/recipients/<device_token>. */
export const recipientResponse = z
  .looseObject({ recipient: triedRecipient })
  .meta({ id: 'RecipientResponse' });

/** Response of GET /devices/<device_token>/pushes. */
export const devicePushesResponse = z
  .looseObject({
    pushes: z.array(pushHead.extend({ recipient: triedRecipient }).meta({ id: 'DevicePush' })),
    next_page: nextPage,
  })
  .meta({ id: 'DevicePushes' });
