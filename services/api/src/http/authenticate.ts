import { ApiError } from '@carillon/core/api-error';
import { apiKeyDigest, isApiKeyForm } from '@carillon/core/api-key';
import type { KeyOwner } from '@carillon/store/keys';
import { LRUCache } from 'lru-cache';

/** The caller of a backend request. */
export interface Caller extends Pick<KeyOwner, 'app' | 'account'> {
  /** Only for the links that repeat it (specification 4.9): never kept, never logged. */
  apiKey: string;
}

/** What of a request tells who asks. */
export interface Asking {
  url?: string | undefined;
  headers: { authorization?: string | undefined };
  /** The client's address. */
  ip?: string | undefined;
}

/** How long a revoked key may still work, with the look-up before it under 10 s, and a wrong one costs no look-up. */
const CACHE_MS = 7_000;
const CACHE_KEYS = 10_000;

/** Finds the caller by the request's key, before anything of the body is read. */
export function createAuthenticate(deps: {
  pepper: string;
  keys: { owner(digest: string): Promise<KeyOwner | undefined> };
  /** Counts a wrong key of a client address; true: there were too many. A good key is never counted. */
  countWrongKey(address: string): Promise<boolean>;
}) {
  // By the key itself, which its request holds anyway: a digest each time would cost more than the look-up saves.
  const cache = new LRUCache<string, { owner: KeyOwner | undefined }>({
    max: CACHE_KEYS,
    ttl: CACHE_MS,
    fetchMethod: async (key) => ({ owner: await deps.keys.owner(apiKeyDigest(deps.pepper, key)) }),
  });

  async function ownerOf(key: string): Promise<KeyOwner | undefined> {
    if (!isApiKeyForm(key)) return undefined;
    const known = cache.get(key) ?? (await cache.fetch(key));
    return known?.owner;
  }

  /** @throws ApiError INVALID_API_KEY, AUTH_LIMIT_EXCEEDED, ACCOUNT_SUSPENDED */
  return async function authenticate(request: Asking): Promise<Caller> {
    const key = givenKey(request);
    if (key === undefined) throw new ApiError('INVALID_API_KEY');
    const owner = await ownerOf(key);
    if (owner === undefined) {
      const isTooMuch = await deps.countWrongKey(request.ip ?? '');
      throw new ApiError(isTooMuch ? 'AUTH_LIMIT_EXCEEDED' : 'INVALID_API_KEY');
    }
    const { app, account } = owner;
    if (account.suspendedAt !== undefined) throw new ApiError('ACCOUNT_SUSPENDED');
    return { app, account, apiKey: key };
  };
}

/** Whether a request brings a key at all, right or wrong. */
export function hasKey({ url = '', headers }: Asking): boolean {
  return headers.authorization !== undefined || keysIn(url).length > 0;
}

/** `?api_key=` (specification, section 5), exactly once, or `Authorization: Bearer`, which stays out of logs. */
function givenKey({ url = '', headers }: Asking): string | undefined {
  const keys = keysIn(url);
  if (keys.length > 0) return keys.length === 1 ? keys[0] : undefined;
  return /^Bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1];
}

function keysIn(url: string): string[] {
  const start = url.indexOf('?');
  return start < 0 ? [] : new URLSearchParams(url.slice(start + 1)).getAll('api_key');
}
