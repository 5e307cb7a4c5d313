import { createHash } from 'node:crypto';
import { ApiError } from '@carillon/core/api-error';
import type { PushDocument } from '@carillon/store/documents';
import { unpackFailed } from '@carillon/store/failed-tokens';
import type { Store } from '@carillon/store/store';
import type { AcceptedPush } from './schema.ts';

/** A client's idempotency key and the body it came with; a repeated request is recognised by them (guarantee G2). */
export interface Idempotency {
  key: string;
  /** SHA-256 of the request body's bytes, hex. */
  bodyHash: string;
}

const KEY_PATTERN = /^[\x20-\x7e]{1,255}$/;
/** A request that is still being accepted is committed or abandoned within seconds, even if its process dies. */
const RETRY_AFTER_SECONDS = 1;

/** Reads the header `Idempotency-Key`. @throws ApiError INVALID_PARAM */
export function parseIdempotencyKey(
  header: string | undefined,
  bodyText: string,
): Idempotency | undefined {
  if (header === undefined) return undefined;
  if (!KEY_PATTERN.test(header)) {
    throw new ApiError('INVALID_PARAM', 'The Idempotency-Key must be 1 to 255 ASCII characters.');
  }
  return { key: header, bodyHash: createHash('sha256').update(bodyText).digest('hex') };
}

/**
 * Returns the response of an earlier request with the same idempotency key; undefined for a new request. Runs before
 * the request is parsed: since the first request its schedule may have passed and its audience may have changed
 * (guarantee G2).
 *
 * @param tokens returns the request's tokens without duplicates; called only if they are needed
 * @throws ApiError INVALID_PARAM, SERVICE_UNAVAILABLE
 */
export async function replayIdempotent(
  store: Pick<Store, 'pushes'>,
  app: string,
  idempotency: Idempotency | undefined,
  tokens: () => readonly string[],
): Promise<AcceptedPush | undefined> {
  if (idempotency === undefined) return undefined;
  const existing = await store.pushes.findByIdempotencyKey(app, idempotency.key);
  if (existing === undefined) return undefined;
  // A different body may be invalid, so its tokens are not parsed.
  const isSameBody = existing.idempotency?.bodyHash === idempotency.bodyHash;
  return repeatResponse(existing, idempotency, isSameBody ? tokens() : []);
}

/**
 * Returns the response that the first request with this idempotency key got (guarantee G2).
 *
 * @throws ApiError INVALID_PARAM for a different body, SERVICE_UNAVAILABLE while the first request is in progress
 */
export function repeatResponse(
  existing: PushDocument,
  idempotency: Idempotency | undefined,
  tokens: readonly string[],
): AcceptedPush {
  if (existing.idempotency?.bodyHash !== idempotency?.bodyHash) {
    throw new ApiError('INVALID_PARAM', 'The Idempotency-Key was used with another request body.');
  }
  // Another request is still accepting this push, so its result is not known yet.
  if (existing.state === 'accepting') {
    throw new ApiError('SERVICE_UNAVAILABLE', undefined, RETRY_AFTER_SECONDS);
  }
  const failed = unpackFailed(tokens, existing.idempotency?.failed);
  return { success: true, id: existing._id, info: { devices: existing.devices, failed } };
}
