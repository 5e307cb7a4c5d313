import type { IncomingHttpHeaders } from 'node:http';
import { createJsonResponse, type ProviderResponse } from '../response/provider-response.ts';
import type { Receiver } from './subscriptions.ts';
import type { VapidError } from './vapid.ts';

/** Maximum size of a body: a push service need not accept more (RFC 8291, 4). */
const MAX_BODY_BYTES = 4_096;
const TOPIC = /^[\w-]{1,32}$/;
const URGENCIES: readonly (string | undefined)[] = [undefined, 'very-low', 'low', 'normal', 'high'];

/** Mozilla's text for a wrong key. Senders recognize by it that the error concerns one subscription, not their key. */
const KEY_MISMATCH_REASON =
  'The VAPID credentials do not correspond to the credentials used to create the subscription.';

/** A received push request. */
export interface WebPushRequest {
  method: string | undefined;
  headers: IncomingHttpHeaders;
  body: Buffer;
  receiver: Receiver | 'gone' | undefined;
  vapidError: VapidError;
  /** URL of the push message resource. */
  location: string;
}

/** Creates an error response with a reason text, as push services send it. @param part of the request that is refused */
export function createErrorResponse(
  status: number,
  reason: string,
  part?: string,
): ProviderResponse {
  const response = createJsonResponse(status, { code: status, reason });
  return part === undefined ? response : { ...response, detail: `${part}: ${reason}` };
}

/** Validates a push request and creates the response (RFC 8030, 5 and 8; RFC 8292, 4). */
export function validatePush(push: WebPushRequest): ProviderResponse {
  if (push.method !== 'POST') return createErrorResponse(405, 'A push is a POST.', 'method');
  if (push.receiver === undefined)
    return createErrorResponse(404, 'There is no such subscription.', 'endpoint');
  if (push.receiver === 'gone')
    return createErrorResponse(410, 'The subscription has ended.', 'endpoint');
  return (
    validateSender(push) ??
    validateHeaders(push.headers) ??
    validateBody(push) ??
    createAcceptedResponse(push)
  );
}

function validateSender({ vapidError }: WebPushRequest): ProviderResponse | undefined {
  const part = 'authorization';
  if (vapidError === undefined) return undefined;
  if (vapidError === 'key-mismatch') return createErrorResponse(403, KEY_MISMATCH_REASON, part);
  if (vapidError === 'bad-contact') {
    // As Apple answers.
    const response = createJsonResponse(403, { reason: 'BadJwtToken' });
    return { ...response, detail: `${part}: Apple takes no such contact (sub).` };
  }
  if (vapidError === 'invalid') return createErrorResponse(403, 'The VAPID key is wrong.', part);
  const response = createErrorResponse(401, 'The VAPID key is missing.', part);
  response.headers['www-authenticate'] = 'vapid';
  return response;
}

function validateHeaders({
  ttl,
  topic,
  urgency,
}: IncomingHttpHeaders): ProviderResponse | undefined {
  if (typeof ttl !== 'string' || !/^\d{1,10}$/.test(ttl))
    return createErrorResponse(400, 'TTL is needed.', 'ttl');
  if (topic !== undefined && !(typeof topic === 'string' && TOPIC.test(topic))) {
    const reason = 'Topic must be at most 32 characters of base64url.';
    return createErrorResponse(400, reason, 'topic');
  }
  if (!URGENCIES.includes(urgency?.toString()))
    return createErrorResponse(400, 'Urgency has no such value.', 'urgency');
  return undefined;
}

function validateBody({ headers, body }: WebPushRequest): ProviderResponse | undefined {
  if (body.length > MAX_BODY_BYTES)
    return createErrorResponse(413, 'The message is over 4,096 bytes.', 'body');
  if (body.length > 0 && headers['content-encoding'] !== 'aes128gcm') {
    const reason = 'Content-Encoding must be aes128gcm.';
    return createErrorResponse(400, reason, 'content-encoding');
  }
  return undefined;
}

function createAcceptedResponse({ headers, location }: WebPushRequest): ProviderResponse {
  return { status: 201, headers: { location, ttl: String(headers.ttl) }, body: '' };
}
