import { createHash, createHmac, randomBytes } from 'node:crypto';

/** Prefix of a secret's text form (Standard Webhooks). */
const PREFIX = 'whsec_';
const SECRET_BYTES = 32;

/** Creates a secret: `whsec_` and 256 random bits, base64. */
export function newWebhookSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString('base64');
}

/**
 * Builds the headers of a request, as Standard Webhooks 1.0 defines them. The id is that of the body: it repeats only
 * with the same body.
 *
 * @param secrets newest first; each adds a signature
 * @param nowMs time of the request, milliseconds since 1970
 */
export function signWebhook(
  secrets: readonly string[],
  body: string,
  nowMs: number,
): Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string> {
  const id = `msg_${createHash('sha256').update(body).digest('base64url').slice(0, 27)}`;
  const timestamp = String(Math.floor(nowMs / 1_000));
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(PREFIX.length), 'base64');
    return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
  });
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  };
}
