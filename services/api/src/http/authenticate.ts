import type { IncomingMessage } from 'node:http';
import { ApiError } from '@carillon/core/api-error';
import { apiKeyDigest, isApiKeyForm } from '@carillon/core/api-key';
import type { KeyOwner } from '@carillon/store/keys';
import { LRUCache } from 'lru-cache';

/** The caller of a backend request. */
export interface Caller extends Pick<KeyOwner, 'app' | 'account'> {
  /** Only for the links that repeat it (specification 4.9): never kept, never logged. */
  apiKey: string;
}

/** How long a revoked key may still work, and a wrong one costs no look-up. */
const CACHE_MS = 10_000;
const CACHE_KEYS = 10_000;

/** Finds the caller by the request's key, before anything of the body is read. */
export function createAuthenticate(deps: {
  pepper: string;
  keys: { owner(digest: string): Promise<KeyOwner | undefined> };
}) {
  const cache = new LRUCache<string, { owner: KeyOwner | undefined }>({
    max: CACHE_KEYS,
    ttl: CACHE_MS,
    fetchMethod: async (digest) => ({ owner: await deps.keys.owner(digest) }),
  });

  /** @throws ApiError INVALID_API_KEY, ACCOUNT_SUSPENDED */
  return async function authenticate(request: IncomingMessage): Promise<Caller> {
    const key = givenKey(request);
    if (key === undefined || !isApiKeyForm(key)) throw new ApiError('INVALID_API_KEY');
    const found = await cache.fetch(apiKeyDigest(deps.pepper, key));
    if (found?.owner === undefined) throw new ApiError('INVALID_API_KEY');
    if (found.owner.account.suspendedAt !== undefined) throw new ApiError('ACCOUNT_SUSPENDED');
    const { app, account } = found.owner;
    return { app, account, apiKey: key };
  };
}

/** `?api_key=` (specification, section 5), exactly once, or `Authorization: Bearer`, which stays out of logs. */
function givenKey(request: IncomingMessage): string | undefined {
  const url = request.url ?? '';
  const start = url.indexOf('?');
  const keys = start < 0 ? [] : new URLSearchParams(url.slice(start + 1)).getAll('api_key');
  if (keys.length > 0) return keys.length === 1 ? keys[0] : undefined;
  return /^Bearer (\S+)$/i.exec(request.headers.authorization ?? '')?.[1];
}
