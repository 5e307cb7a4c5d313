import type { AudienceCount } from '../api/types.ts';
import { formatCount } from './times.ts';

/** Number of devices from which on a push is sent only after a question. */
const MAX_UNASKED_DEVICES = 1_000;
/** Maximum topics that are named. */
const MAX_NAMED = 10;

/** Describes a number of devices: `at most 1,200 devices`. */
export function describeDevices({ devices, isAtMost }: AudienceCount): string {
  const noun = devices === 1 ? 'device' : 'devices';
  return `${isAtMost ? 'at most ' : ''}${formatCount(devices)} ${noun}`;
}

/** Names the recipients that reach no device; empty if each reaches one. */
export function describeUnknown({ unknown, unknownCount }: AudienceCount): string {
  if (unknownCount === 0) return '';
  return `Reaches no device: ${listNames(unknown, unknownCount)}.`;
}

/** Names topics, and counts device tokens: `/topics/news, 3 device tokens`. */
export function describeRecipients(recipients: readonly string[]): string {
  const topics = recipients.filter(isTopic);
  const tokens = recipients.length - topics.length;
  return [
    ...(topics.length === 0 ? [] : [listNames(topics.slice(0, MAX_NAMED), topics.length)]),
    ...(tokens === 0 ? [] : [`${formatCount(tokens)} device ${tokens === 1 ? 'token' : 'tokens'}`]),
  ].join(', ');
}

/** Checks that a push is sent only after a question: it has a topic, many devices, or recipients that reach no device. */
export function needsQuestion(
  recipients: readonly string[],
  { devices, unknownCount }: AudienceCount,
): boolean {
  return recipients.some(isTopic) || devices > MAX_UNASKED_DEVICES || unknownCount > 0;
}

function isTopic(recipient: string): boolean {
  return recipient.startsWith('/');
}

function listNames(names: readonly string[], count: number): string {
  const more = count > names.length ? ` and ${formatCount(count - names.length)} more` : '';
  return `${names.join(', ')}${more}`;
}
