import { describeOutcome, isOpenOutcome } from './outcomes.ts';

/** Events that are reported to webhooks. */
export const WEBHOOK_EVENTS = [
  'push.finished',
  'recipient.delivered',
  'recipient.sent',
  'recipient.failed',
  'recipient.expired',
  'recipient.superseded',
  'recipient.gone',
  'recipient.deleted',
  'device.registered',
  'device.uninstalled',
  'device.unsubscribed',
  'device.deleted',
] as const;
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number];

/** Limits of webhooks. */
export const WEBHOOK_LIMITS = {
  perApp: 5,
  eventsPerRequest: 500,
  addressCharacters: 2_048,
} as const;

/** Returns whether some of the events are about pushes or their recipients, and whether some are about recipients. */
export function coverageOf(events: readonly WebhookEvent[]): {
  pushes: boolean;
  recipients: boolean;
} {
  const recipients = events.some((event) => event.startsWith('recipient.'));
  return { pushes: recipients || events.includes('push.finished'), recipients };
}

/** Returns the event of an outcome byte; undefined while the recipient is pending. */
export function recipientEventOf(code: number): WebhookEvent | undefined {
  if (isOpenOutcome(code)) return undefined;
  const name = `recipient.${describeOutcome(code).outcome}`;
  return WEBHOOK_EVENTS.find((event) => event === name);
}
