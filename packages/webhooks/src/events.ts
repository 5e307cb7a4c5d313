import { hasBit, splitTokens, toReportedState } from '@carillon/core/batch';
import { pushIdOfBatch } from '@carillon/core/ids';
import { channelOfOutcome, describeOutcome, OUTCOMES } from '@carillon/core/outcomes';
import { recipientEventOf, type WebhookEvent } from '@carillon/core/webhooks';
import { toBytes } from '@carillon/store/bytes';
import type { Batch, DeviceEvent } from '@carillon/store/documents';
import { latencyMsAt } from '@carillon/store/receipt-times';
import {
  type ClaimedReport,
  isEndUnreported,
  type ReportProgress,
  unreportedRecipients,
} from './outbox.ts';

/** One event of a request. */
export interface EventBody {
  /** Made of the document, the position and the outcome: a repeated event has the same id. */
  id: string;
  type: WebhookEvent;
  data: Record<string, unknown>;
}

/** An event to send, and its effect on the record of reported events. */
export interface PendingEvent {
  body: EventBody;
  /** Records in the progress of its report that the event was sent. */
  apply(): void;
}

/** Events to send about one claimed document. */
export interface PendingReport {
  progress: ReportProgress;
  events: PendingEvent[];
}

/** Builds the events of a claimed document; those that the webhook has not selected count as reported. */
export function buildEvents(
  report: ClaimedReport,
  wanted: ReadonlySet<WebhookEvent>,
): PendingReport {
  const progress: ReportProgress = { report, isComplete: false };
  const all = [
    ...buildRecipientEvents(report, progress),
    ...buildEndEvent(report, progress),
    ...buildDeviceEvents(report, progress),
  ];
  const events: PendingEvent[] = [];
  for (const event of all) {
    if (wanted.has(event.body.type)) events.push(event);
    else event.apply();
  }
  return { progress, events };
}

function buildRecipientEvents(report: ClaimedReport, progress: ReportProgress): PendingEvent[] {
  const unreported = unreportedRecipients(report);
  if (report.kind === 'devices' || unreported.length === 0) return [];
  const { work } = report.document;
  if (work === undefined) return [];
  const tokens = splitTokens(work.tokens);
  const reported = new Uint8Array(work.n);
  reported.set(toBytes(report.entry.reported).subarray(0, work.n));
  progress.reported = reported;
  return unreported.flatMap(({ position, code }): PendingEvent[] => {
    const type = recipientEventOf(code);
    if (type === undefined) return [];
    const { reason } = describeOutcome(code);
    const milliseconds = latencyMsAt(work, position, code, report.id);
    const detail = work.words?.find(([, positions]) => positions.includes(position))?.[0];
    const data = {
      push: pushIdOfBatch(report.id),
      token: tokens[position],
      channel: channelOfOutcome(work.channel, code),
      ...(reason !== undefined && { reason }),
      ...(detail !== undefined && code !== OUTCOMES.delivered && { detail }),
      ...(milliseconds > 0 && { milliseconds }),
      final: isFinal(work, position, code),
    };
    return [
      {
        body: { id: `${report.id}.${position}.${code}`, type, data },
        apply() {
          reported[position] = code;
        },
      },
    ];
  });
}

/**
 * Checks whether an outcome is the last one. A device may still acknowledge what FCM has accepted as the fallback; of the
 * others only pushes that also go to a connected iOS device get late receipts.
 */
function isFinal(
  { final, channel, state, lateReceipts, outcomes, done = {} }: Batch,
  position: number,
  code: number,
): boolean {
  if (final === true || code === OUTCOMES.delivered || hasBit(done, position)) return true;
  // FCM's own answer, before the batch went on over MQTT.
  if (channel === 'mqtt' && toBytes(outcomes)[position] === OUTCOMES.sent) return true;
  if (channel !== 'apns') return channelOfOutcome(channel, code) === channel;
  return state === 'closed' && lateReceipts !== true;
}

function buildEndEvent(report: ClaimedReport, progress: ReportProgress): PendingEvent[] {
  if (report.kind !== 'pushes' || !isEndUnreported(report)) return [];
  const { devices, counts = {}, finishedAt } = report.document;
  const data = {
    push: report.id,
    state: toReportedState(report.document),
    devices,
    outcomes: counts,
    ...(finishedAt !== undefined && { finishedAt: finishedAt.toISOString() }),
  };
  return [
    {
      body: { id: `${report.id}.finished`, type: 'push.finished', data },
      apply() {
        progress.finished = true;
      },
    },
  ];
}

function buildDeviceEvents(report: ClaimedReport, progress: ReportProgress): PendingEvent[] {
  if (report.kind !== 'devices') return [];
  const { platform, registeredAt, replaces } = report.document;
  const { events = [], times = [] } = report.entry;
  // A device may be uninstalled more than once.
  const timeOf = (event: DeviceEvent) =>
    (times.find((time) => time.event === event)?.at ?? registeredAt).getTime();
  return events.map((event) => ({
    body: {
      id: `${report.id}.${timeOf(event)}.${event}`,
      type: `device.${event}` as const,
      data: {
        ...{ token: report.id, platform, registeredAt: registeredAt.toISOString() },
        ...(event === 'registered' && replaces !== undefined && { replaces }),
      },
    },
    apply() {
      progress.events = [...(progress.events ?? []), event];
    },
  }));
}
