import type { IncomingHttpHeaders } from 'node:http2';
import type { Reason } from './reasons.ts';

const PATH = '/3/device/';
const DEVICE_TOKEN = /^(?:[0-9a-fA-F]{2}){32,100}$/;
const TOPIC = /^[\w.-]{1,255}$/;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const EXPIRATION = /^\d{1,12}$/;
const PRIORITIES = [undefined, '10', '5', '1'];
const PUSH_TYPES = [
  'alert',
  'background',
  'complication',
  'controls',
  'fileprovider',
  'liveactivity',
  'location',
  'mdm',
  'pushtotalk',
  'voip',
  'widgets',
];
const MOST_COLLAPSE_BYTES = 64;
const MOST_BYTES = 4_096;
const MOST_VOIP_BYTES = 5_120;

/** A notification request as it came. */
export interface Notification {
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** The body, if it is a JSON object. */
  payload: Record<string, unknown> | undefined;
  /** A client certificate names the topic by itself. */
  hasCertificate: boolean;
}

/** The device token that a path names; undefined: it is none of a notification request. */
export function tokenIn(path: string | undefined): string | undefined {
  return path?.startsWith(PATH) ? path.slice(PATH.length) : undefined;
}

/** What is wrong with a request (Apple, "Sending notification requests to APNs"); undefined: nothing. */
export function faultOf(notification: Notification): Reason | undefined {
  const { headers } = notification;
  const token = tokenIn(headers[':path']);
  if (token === undefined) return 'BadPath';
  if (headers[':method'] !== 'POST') return 'MethodNotAllowed';
  if (token === '') return 'MissingDeviceToken';
  if (!DEVICE_TOKEN.test(token)) return 'BadDeviceToken';
  return headerFault(notification) ?? bodyFault(notification);
}

function headerFault({ headers, hasCertificate }: Notification): Reason | undefined {
  const topic = headers['apns-topic'];
  if (topic === undefined && !hasCertificate) return 'MissingTopic';
  if (topic !== undefined && !(typeof topic === 'string' && TOPIC.test(topic))) return 'BadTopic';
  const type = headers['apns-push-type'];
  if (typeof type !== 'string' || !PUSH_TYPES.includes(type)) return 'InvalidPushType';
  const priority = headers['apns-priority']?.toString();
  if (!PRIORITIES.includes(priority)) return 'BadPriority';
  // Without the header the priority is 10, which Apple forbids for the background.
  if (type === 'background' && priority !== '5' && priority !== '1') return 'BadPriority';
  return otherHeaderFault(headers);
}

function otherHeaderFault(headers: IncomingHttpHeaders): Reason | undefined {
  const expiration = headers['apns-expiration']?.toString();
  if (expiration !== undefined && !EXPIRATION.test(expiration)) return 'BadExpirationDate';
  const id = headers['apns-id']?.toString();
  if (id !== undefined && !UUID.test(id)) return 'BadMessageId';
  const collapse = headers['apns-collapse-id']?.toString() ?? '';
  return Buffer.byteLength(collapse) > MOST_COLLAPSE_BYTES ? 'BadCollapseId' : undefined;
}

function bodyFault({ headers, body, payload }: Notification): Reason | undefined {
  const most = headers['apns-push-type'] === 'voip' ? MOST_VOIP_BYTES : MOST_BYTES;
  if (body.length > most) return 'PayloadTooLarge';
  // Apple has no word of its own for what is not a JSON object.
  return payload === undefined ? 'PayloadEmpty' : undefined;
}
