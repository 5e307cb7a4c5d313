import type { IncomingHttpHeaders } from 'node:http';
import { jsonVerdict, type Verdict } from '../answer/verdict.ts';
import type { Receiver } from './subscriptions.ts';
import type { VapidFault } from './vapid.ts';

/** RFC 8291, 4: a push service need not take more. */
const MOST_BYTES = 4_096;
const TOPIC = /^[\w-]{1,32}$/;
const URGENCIES: readonly (string | undefined)[] = [undefined, 'very-low', 'low', 'normal', 'high'];

/** By these words senders know that it is about one subscription and not about themselves. */
const OTHER_KEY_PAIR =
  'The VAPID credentials do not correspond to the credentials used to create the subscription.';

/** A push as it came. */
export interface WebPush {
  method: string | undefined;
  headers: IncomingHttpHeaders;
  body: Buffer;
  receiver: Receiver | 'gone' | undefined;
  vapidFault: VapidFault;
  /** Where the message could be asked for. */
  location: string;
}

/** A refusal with its reason in words, as push services give it. */
export function refusal(status: number, reason: string): Verdict {
  return jsonVerdict(status, { code: status, reason });
}

/** What a push service answers (RFC 8030, 5 and 8; RFC 8292, 4). */
export function judge(push: WebPush): Verdict {
  if (push.method !== 'POST') return refusal(405, 'A push is a POST.');
  if (push.receiver === undefined) return refusal(404, 'There is no such subscription.');
  if (push.receiver === 'gone') return refusal(410, 'The subscription has ended.');
  return judgeSender(push) ?? judgeHeaders(push.headers) ?? judgeBody(push) ?? taken(push);
}

function judgeSender({ vapidFault }: WebPush): Verdict | undefined {
  if (vapidFault === undefined) return undefined;
  if (vapidFault === 'another') return refusal(403, OTHER_KEY_PAIR);
  if (vapidFault === 'wrong') return refusal(403, 'The VAPID key is wrong.');
  const verdict = refusal(401, 'The VAPID key is missing.');
  verdict.headers['www-authenticate'] = 'vapid';
  return verdict;
}

function judgeHeaders({ ttl, topic, urgency }: IncomingHttpHeaders): Verdict | undefined {
  if (typeof ttl !== 'string' || !/^\d{1,10}$/.test(ttl)) return refusal(400, 'TTL is needed.');
  if (topic !== undefined && !(typeof topic === 'string' && TOPIC.test(topic))) {
    return refusal(400, 'Topic must be at most 32 characters of base64url.');
  }
  if (!URGENCIES.includes(urgency?.toString())) return refusal(400, 'Urgency has no such value.');
  return undefined;
}

function judgeBody({ headers, body }: WebPush): Verdict | undefined {
  if (body.length > MOST_BYTES) return refusal(413, 'The message is over 4,096 bytes.');
  if (body.length > 0 && headers['content-encoding'] !== 'aes128gcm') {
    return refusal(400, 'Content-Encoding must be aes128gcm.');
  }
  return undefined;
}

function taken({ headers, location }: WebPush): Verdict {
  return { status: 201, headers: { location, ttl: String(headers.ttl) }, body: '' };
}
