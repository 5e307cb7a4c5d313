import type { IncomingHttpHeaders } from 'node:http2';
import { isObject } from '../transport/jwt.ts';
import type { Reason } from './reasons.ts';

const PATH_PREFIX = '/3/device/';
const DEVICE_TOKEN = /^(?:[0-9a-fA-F]{2}){32,100}$/;
const TOPIC = /^[\w.-]{1,255}$/;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const EXPIRATION = /^\d{1,12}$/;
const PRIORITIES = [undefined, '10', '5', '1'];
/** Suffix of the topic by push type (Apple, "Sending notification requests to APNs", apns-push-type). */
const TOPIC_SUFFIXES: Readonly<Record<string, string>> = {
  alert: '',
  background: '',
  complication: '.complication',
  controls: '.push-type.controls',
  fileprovider: '.pushkit.fileprovider',
  liveactivity: '.push-type.liveactivity',
  location: '.location-query',
  /** Its topic is the subject of the MDM certificate. */
  mdm: '',
  pushtotalk: '.voip-ptt',
  voip: '.voip',
  widgets: '.push-type.widgets',
};
const SUFFIXES = Object.values(TOPIC_SUFFIXES).filter((suffix) => suffix !== '');
/** Fields of an alert by which a device shows something. */
const TEXT_FIELDS = ['title', 'subtitle', 'body', 'loc-key', 'title-loc-key', 'subtitle-loc-key'];
const MAX_COLLAPSE_ID_BYTES = 64;
const MAX_PAYLOAD_BYTES = 4_096;
const MAX_VOIP_PAYLOAD_BYTES = 5_120;

/** A received notification request. */
export interface NotificationRequest {
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** The body, if it is a JSON object. */
  payload: Record<string, unknown> | undefined;
  /** True if the connection has a client certificate, which implies the topic. */
  hasCertificate: boolean;
}

/** Reads the device token from a path; undefined when it is not the path of a notification request. */
export function parseDeviceToken(path: string | undefined): string | undefined {
  return path?.startsWith(PATH_PREFIX) ? path.slice(PATH_PREFIX.length) : undefined;
}

/** Finds the reason to reject a request (Apple, "Sending notification requests to APNs"). */
export function findRejectionReason(notification: NotificationRequest): Reason | undefined {
  const { headers } = notification;
  const token = parseDeviceToken(headers[':path']);
  if (token === undefined) return 'BadPath';
  if (headers[':method'] !== 'POST') return 'MethodNotAllowed';
  if (token === '') return 'MissingDeviceToken';
  if (!DEVICE_TOKEN.test(token)) return 'BadDeviceToken';
  return checkHeaders(notification) ?? checkBody(notification);
}

function checkHeaders({ headers, hasCertificate }: NotificationRequest): Reason | undefined {
  const topic = headers['apns-topic'];
  if (topic === undefined && !hasCertificate) return 'MissingTopic';
  if (topic !== undefined && !(typeof topic === 'string' && TOPIC.test(topic))) return 'BadTopic';
  const type = headers['apns-push-type'];
  if (typeof type !== 'string' || !Object.hasOwn(TOPIC_SUFFIXES, type)) return 'InvalidPushType';
  if (topic !== undefined && !isTopicOf(type, topic)) return 'TopicDisallowed';
  const priority = headers['apns-priority']?.toString();
  if (!PRIORITIES.includes(priority)) return 'BadPriority';
  // Without the header the priority is 10, which Apple rejects for background pushes.
  if (type === 'background' && priority !== '5' && priority !== '1') return 'BadPriority';
  return checkOptionalHeaders(headers);
}

/** Checks that a topic has the suffix of its push type, and none of another type. That of a certificate for MDM may be any. */
function isTopicOf(type: string, topic: string): boolean {
  if (type === 'mdm') return true;
  const suffix = TOPIC_SUFFIXES[type] ?? '';
  return suffix === '' ? !SUFFIXES.some((one) => topic.endsWith(one)) : topic.endsWith(suffix);
}

function checkOptionalHeaders(headers: IncomingHttpHeaders): Reason | undefined {
  const expiration = headers['apns-expiration']?.toString();
  if (expiration !== undefined && !EXPIRATION.test(expiration)) return 'BadExpirationDate';
  const id = headers['apns-id']?.toString();
  if (id !== undefined && !UUID.test(id)) return 'BadMessageId';
  const collapse = headers['apns-collapse-id']?.toString() ?? '';
  return Buffer.byteLength(collapse) > MAX_COLLAPSE_ID_BYTES ? 'BadCollapseId' : undefined;
}

function checkBody({ headers, body, payload }: NotificationRequest): Reason | undefined {
  const maxBytes =
    headers['apns-push-type'] === 'voip' ? MAX_VOIP_PAYLOAD_BYTES : MAX_PAYLOAD_BYTES;
  if (body.length > maxBytes) return 'PayloadTooLarge';
  // Apple documents no reason for a payload that is not a JSON object.
  if (payload === undefined) return 'PayloadEmpty';
  return fitsType(headers['apns-push-type'], payload.aps) ? undefined : 'InvalidPushType';
}

/**
 * Checks that `alert` and `background` fit what a payload does. Apple may refuse, delay or drop a notification of which
 * they do not ("Sending notification requests to APNs", apns-push-type); here each is refused, so that it is noticed.
 */
function fitsType(type: unknown, aps: unknown): boolean {
  const { alert, badge, sound, 'content-available': wakes } = isObject(aps) ? aps : {};
  const isShown = badge !== undefined || showsText(alert) || (sound ?? '') !== '';
  if (type === 'background') return wakes === 1 && !isShown && (alert ?? sound) === undefined;
  return type !== 'alert' || wakes !== 1 || isShown;
}

/** Checks whether an alert, a text or a dictionary of texts, shows one of them. */
function showsText(alert: unknown): boolean {
  const texts = isObject(alert) ? TEXT_FIELDS.map((field) => alert[field]) : [alert];
  return texts.some((text) => typeof text === 'string' && text !== '');
}
