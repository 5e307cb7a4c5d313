import { ApiError } from '@carillon/core/api-error';
import { digestApiKey, isApiKeyFormat } from '@carillon/core/api-key';
import { toAddressGroup } from '@carillon/core/client-address';
import type { KeyOwner } from '@carillon/store/keys';
import type { Store } from '@carillon/store/store';
import { LRUCache } from 'lru-cache';
import type { KeyUseRecorder } from './key-uses.ts';
import type { RateLimits } from './rate-limits.ts';
import { createThrottledLookup } from './throttled-lookup.ts';

/** The caller of a backend request. */
export interface Caller extends Omit<KeyOwner, 'keyId'> {
  /** Used only for links that repeat the key (specification 4.9): never stored, never logged. */
  apiKey: string;
}

/** Parts of a request that authentication reads. */
export interface AuthRequest {
  url?: string | undefined;
  headers: { authorization?: string | undefined };
  /** The client's address. */
  ip?: string | undefined;
}

/** TTL of a cached result: with the lookup's own time a revoked key stops working within 10 s. */
const CACHE_TTL_MS = 7_000;
const MAX_CACHED_KEYS = 10_000;

/** Cached owner of a valid key. */
interface CachedOwner {
  owner: KeyOwner;
  validUntil: number;
}

type WrongKeyLimits = Pick<RateLimits, 'countWrongKey' | 'hasTooManyWrongKeys'>;

/**
 * Creates the authentication by API key. It runs before any of the body is read. Valid keys are never counted.
 *
 * @param keyUses records each use of a valid key in memory
 */
export function createAuthenticator(
  keys: Pick<Store['keys'], 'owner' | 'owners'>,
  pepper: string,
  limits: WrongKeyLimits,
  keyUses: Pick<KeyUseRecorder, 'record'>,
) {
  const keyLookup = createKeyLookup(keys, pepper, limits);

  function toCaller({ keyId, ...owner }: KeyOwner, apiKey: string): Caller {
    keyUses.record(keyId);
    if (owner.account.suspendedAt !== undefined) throw new ApiError('ACCOUNT_SUSPENDED');
    return { ...owner, apiKey };
  }

  async function lookUpCaller(request: AuthRequest, key: string): Promise<Caller> {
    // The address is read from the headers of proxies, so only a key that is not cached pays for it.
    const address = request.ip ?? '';
    const owner = await keyLookup.find(key, address);
    if (owner !== undefined) return toCaller(owner, key);
    const isLimitExceeded =
      limits.hasTooManyWrongKeys(address) || (await limits.countWrongKey(address));
    throw new ApiError(isLimitExceeded ? 'AUTH_LIMIT_EXCEEDED' : 'INVALID_API_KEY');
  }

  /**
   * Returns the caller: at once if the key is cached, as that of nearly every request is.
   *
   * @throws ApiError INVALID_API_KEY, AUTH_LIMIT_EXCEEDED, ACCOUNT_SUSPENDED
   */
  return function authenticate(request: AuthRequest): Caller | Promise<Caller> {
    const key = readApiKey(request);
    if (key === undefined) throw new ApiError('INVALID_API_KEY', describeMissingKey(request));
    const owner = keyLookup.findCached(key);
    return owner === undefined ? lookUpCaller(request, key) : toCaller(owner, key);
  };
}

/**
 * Creates the lookup of keys with its cache. The cache is indexed by the key itself, not by its digest: computing a
 * digest for each request would cost more than the cache saves. Valid and invalid keys are cached separately, so that
 * invalid keys evict no valid one.
 */
function createKeyLookup(
  keys: Pick<Store['keys'], 'owner' | 'owners'>,
  pepper: string,
  limits: WrongKeyLimits,
) {
  const validKeys = new LRUCache<string, CachedOwner>({ max: MAX_CACHED_KEYS });
  const invalidKeys = new LRUCache<string, true>({ max: MAX_CACHED_KEYS, ttl: CACHE_TTL_MS });
  const inFlight = new Map<string, Promise<KeyOwner | undefined>>();

  /** Used for unknown keys of an address that sent many invalid ones: they share a few lookups a second. */
  const findThrottled = createThrottledLookup<KeyOwner>(async (batchKeys) => {
    const digests = new Map(batchKeys.map((key) => [key, digestApiKey(pepper, key)]));
    const owners = await keys.owners([...digests.values()]);
    const ownersByKey = new Map<string, KeyOwner>();
    for (const [key, digest] of digests) {
      const owner = owners.get(digest);
      if (owner !== undefined) ownersByKey.set(key, owner);
    }
    return ownersByKey;
  });

  async function fetchOwner(key: string, address: string): Promise<KeyOwner | undefined> {
    // A key that was valid at its last lookup is not a guess.
    const isThrottled = !validKeys.has(key) && limits.hasTooManyWrongKeys(address);
    const owner = await (isThrottled
      ? findThrottled(key, toAddressGroup(address))
      : keys.owner(digestApiKey(pepper, key)));
    if (owner !== undefined) {
      validKeys.set(key, { owner, validUntil: performance.now() + CACHE_TTL_MS });
      return owner;
    }
    validKeys.delete(key);
    invalidKeys.set(key, true);
    return undefined;
  }

  return {
    /** Returns the owner of a valid key if it is cached. */
    findCached(key: string): KeyOwner | undefined {
      const cached = validKeys.get(key);
      return cached !== undefined && cached.validUntil > performance.now()
        ? cached.owner
        : undefined;
    },
    /** Looks up the owner of a key; undefined if the key is invalid. Concurrent calls share one lookup. */
    find(key: string, address: string): Promise<KeyOwner | undefined> {
      if (!isApiKeyFormat(key) || invalidKeys.has(key)) return Promise.resolve(undefined);
      const pendingLookup = inFlight.get(key);
      if (pendingLookup !== undefined) return pendingLookup;
      const lookup = fetchOwner(key, address).finally(() => inFlight.delete(key));
      inFlight.set(key, lookup);
      return lookup;
    },
  };
}

/** Checks that a request has an API key, valid or not. */
export function hasApiKey({ url = '', headers }: AuthRequest): boolean {
  return headers.authorization !== undefined || readQueryKeys(url).length > 0;
}

/** Describes the reason why a request has no usable key. */
function describeMissingKey({ url = '', headers }: AuthRequest): string {
  if (readQueryKeys(url).length > 1)
    return 'The query parameter "api_key" is given more than once.';
  return headers.authorization === undefined
    ? 'No Secret API Key was given. It is expected as the query parameter "api_key", or as "Authorization: Bearer KEY".'
    : 'The header "Authorization" must be "Bearer", a space and the Secret API Key.';
}

/** Reads `?api_key=` (specification, section 5), given exactly once, or `Authorization: Bearer`. */
function readApiKey({ url = '', headers }: AuthRequest): string | undefined {
  const keys = readQueryKeys(url);
  if (keys.length > 0) return keys.length === 1 ? keys[0] : undefined;
  return /^Bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1];
}

/** Pattern of a query of one parameter, the key, without an escape: the usual query, which needs no further parsing. */
const ONLY_KEY = /^api_key=([\w-]+)$/;

function readQueryKeys(url: string): string[] {
  const start = url.indexOf('?');
  const onlyKey = start < 0 ? undefined : ONLY_KEY.exec(url.slice(start + 1))?.[1];
  if (onlyKey !== undefined) return [onlyKey];
  return start < 0 ? [] : new URLSearchParams(url.slice(start + 1)).getAll('api_key');
}
