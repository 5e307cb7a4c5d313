import type { AccountView } from '@carillon/admin/accounts';
import type { AppView } from '@carillon/admin/apps';
import type { CredentialView } from '@carillon/admin/credentials';
import type { DeviceView } from '@carillon/admin/devices';
import type { FailureView } from '@carillon/admin/failures';
import type { KeyView } from '@carillon/admin/keys';
import { type getRecipientOutcome, toPushView } from '@carillon/admin/pushes';
import type { RedriveView } from '@carillon/admin/redrives';
import type { WebhookDetails, WebhookRequestView } from '@carillon/admin/webhooks';
import { PUSH_STATES } from '@carillon/core/batch';
import {
  CHANNELS,
  type Channel,
  PLATFORMS,
  type Platform,
  PROVIDER_CHANNELS,
} from '@carillon/core/channels';
import { FAILURES, OUTCOMES, type OutcomeName } from '@carillon/core/outcomes';
import { WEBHOOK_EVENTS } from '@carillon/core/webhooks';
import type { Subscriber } from '@carillon/store/subscriptions';
import type { TopicCounter, TopicSize } from '@carillon/store/topics';
import type { WebhookView } from '@carillon/webhooks/manage-webhooks';
import { z } from 'zod';
import type { DevicePush } from './admin.ts';

// The console's responses, converted to the views of packages/admin: the console has times in Unix milliseconds.

const text = z.string();
const count = z.number();
const flag = z.boolean();
const date = z.number().transform((ms) => new Date(ms));
const isoTime = z.number().transform((ms) => new Date(ms).toISOString());
const unixSeconds = z.number().transform((ms) => Math.floor(ms / 1_000));
const channel = z.enum(CHANNELS as [Channel, ...Channel[]]);
const platform = z.enum(PLATFORMS as [Platform, ...Platform[]]);
const outcomeNames = ['failed', ...(Object.keys(OUTCOMES) as OutcomeName[])] as const;
const outcomeCounts = z.partialRecord(z.enum(outcomeNames), count);

/** A response whose content is not used. */
export const done = z.unknown();
export const created = z.object({ id: text });
export const createdKey = z.object({ id: text, key: text }).transform(({ id, key }) => {
  return { id, apiKey: key };
});
export const createdSecret = z.object({ secret: text });
export const replayed = z.object({ pushes: count, last: text.optional() });

export const account: z.ZodType<AccountView> = z.object({
  id: text,
  name: text,
  plan: z.enum(['trial', 'pro']),
  limit: count.nullable().exactOptional(),
  suspended: flag,
});

export const app: z.ZodType<AppView & { warning?: string }> = z.object({
  id: text,
  account: text,
  name: text,
  payloadLimit: count,
  dataString: flag,
  registration: z.enum(['open', 'closed']),
  registrationsPerHour: count.nullable(),
  fcmFallback: z.union([z.enum(['off', 'first']), count]),
  fcmNotification: flag,
  bundleIds: z.array(text),
  webHosts: z.array(text),
  pruneAfterDays: count.nullable(),
  paused: flag,
  createdAt: isoTime,
  warning: text.exactOptional(),
});

export const keys: z.ZodType<{ items: KeyView[] }> = z.object({
  items: z.array(
    z.object({
      id: text,
      app: text,
      lastFour: text,
      createdAt: date,
      lastUsedAt: date.exactOptional(),
      revokedAt: date.exactOptional(),
    }),
  ),
});

/** The parts of a credential that may be shown differ by its kind; they are printed before the times. */
export const credential: z.ZodType<CredentialView> = z
  .looseObject({
    id: text,
    app: text,
    channel: z.enum(PROVIDER_CHANNELS),
    environment: z.enum(['development', 'production']).exactOptional(),
    changedAt: isoTime,
    refused: z.object({ detail: text, at: isoTime, since: text }).exactOptional(),
    warning: text.exactOptional(),
  })
  .transform(({ changedAt, refused, warning, ...fields }) => ({
    ...{ ...fields, changedAt },
    ...(refused !== undefined && { refused }),
    ...(warning !== undefined && { warning }),
  }));
export const credentials = z.object({ items: z.array(credential) });

const webhookFields = z.object({
  id: text,
  host: text,
  events: z.array(z.enum(WEBHOOK_EVENTS)),
  state: z.enum(['on', 'failing', 'off']),
  reason: z.enum(['operator', 'gone', 'failing']).exactOptional(),
  offAt: text.exactOptional(),
  createdAt: text,
  failures: count.exactOptional(),
  failingSince: text.exactOptional(),
  retryAt: text.exactOptional(),
  last: z
    .object({ at: text, status: count.exactOptional(), error: text.exactOptional() })
    .exactOptional(),
  lastSuccessAt: text.exactOptional(),
  previousSecretEndsAt: text.exactOptional(),
  dropped: count.exactOptional(),
});
export const webhook: z.ZodType<WebhookView> = webhookFields;
export const webhooks: z.ZodType<{ items: WebhookDetails[] }> = z.object({
  items: z.array(webhookFields.extend({ pending: count })),
});
export const webhookRequests: z.ZodType<{ items: WebhookRequestView[] }> = z.object({
  items: z.array(
    z.object({
      ...{ id: text, at: text },
      status: count.exactOptional(),
      error: text.exactOptional(),
      ...{ milliseconds: count, events: count, types: z.array(z.object({ type: text, count })) },
      bytes: count,
      attempt: count.exactOptional(),
      resendOf: text.exactOptional(),
      answer: text.exactOptional(),
    }),
  ),
});
export const createdWebhook = z.object({ webhook, secret: text });

const state = z.enum(PUSH_STATES);
const pushHead = z.object({
  id: text,
  state,
  acceptedAt: count,
  dueAt: count.exactOptional(),
  expiresAt: count,
  devices: count,
  topics: z.array(text).exactOptional(),
  counts: outcomeCounts.exactOptional(),
  batches: z.object({ total: count, open: count }).exactOptional(),
});
export const push = pushHead.transform(toPushView);

const recipientStatus = z.object({
  outcome: z.enum(outcomeNames),
  reason: z.enum(FAILURES).exactOptional(),
  milliseconds: count.exactOptional(),
  detail: text.exactOptional(),
  tries: count.exactOptional(),
  nextTryAt: text.exactOptional(),
});
const recipientFields = z.object({ token: text, ...recipientStatus.shape });
export const recipient: z.ZodType<Awaited<ReturnType<typeof getRecipientOutcome>>> =
  recipientFields;

/** The outcomes of a push; the console lists fewer recipients with errors than the database. */
export const pushOutcomes = z
  .object({
    push: pushHead,
    counts: outcomeCounts,
    providerErrors: z.object({
      texts: z.array(z.object({ count })),
      recipients: z.array(recipientFields),
    }),
  })
  .transform(({ push: { id, state, devices }, counts, providerErrors }) => {
    const { texts, recipients } = providerErrors;
    const total = texts.reduce((sum, one) => sum + one.count, 0);
    const moreRecipients = Math.max(0, total - recipients.length);
    return { id, state, devices, outcomes: counts, recipients, moreRecipients };
  });

export const device: z.ZodType<DeviceView> = z
  .object({
    token: text,
    registeredAt: unixSeconds,
    platform,
    way: channel.exactOptional(),
    lastActiveAt: unixSeconds,
    uninstalled: z.literal(true).exactOptional(),
    unsubscribed: z.literal(true).exactOptional(),
  })
  .transform(({ token, registeredAt: date, platform, way, lastActiveAt, ...flags }) => {
    const shown = way !== undefined && { way };
    return { token, date, platform, ...shown, last_active: lastActiveAt, ...flags };
  });

export const devicePush: z.ZodType<DevicePush> = z.object({
  id: text,
  state,
  acceptedAt: count,
  expiresAt: count,
  channel,
  ...recipientStatus.shape,
});

export const topicSize: z.ZodType<TopicSize> = z.object({ name: text, subscribers: count });
export const topic: z.ZodType<TopicSize & TopicCounter> = z.object({
  name: text,
  subscribers: count,
  platforms: z.array(platform),
});
export const subscriber: z.ZodType<Subscriber> = z.object({ token: text, platform });

export const failure: z.ZodType<FailureView> = z.object({
  push: text,
  channel,
  failedAt: count,
  failed: count,
  redriven: count,
  reasons: z.array(z.object({ reason: z.enum(FAILURES).exactOptional(), text, count })),
});

export const redrive: z.ZodType<RedriveView> = z.object({
  id: text,
  app: text,
  state: z.enum(['running', 'finished', 'stopped']),
  createdAt: count,
  endedAt: count.exactOptional(),
  total: count.exactOptional(),
  done: count,
  recipients: count,
  skipped: count,
  skippedReasons: z.record(text, count),
});
