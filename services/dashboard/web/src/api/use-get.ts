import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { get, type Query } from './request.ts';
import type { ResponseOf, Routed } from './response-of.ts';

interface GetOptions {
  enabled?: boolean;
  /** Reads again after this time. */
  everyMs?: number | false;
}

/** Reads from the API. The query's key is `[path, query]`, so that a change can name the path. */
export function useGet<const Path extends string>(
  path: Path & Routed<'get', Path>,
  query: Query = {},
  { enabled = true, everyMs = false }: GetOptions = {},
): UseQueryResult<ResponseOf<'get', Path>> {
  return useQuery<ResponseOf<'get', Path>>({
    queryKey: [path, query],
    queryFn: ({ signal }) => get<Path>(path, query, signal),
    enabled,
    refetchInterval: everyMs,
  });
}

/** Reads a page of a list. While a filter changes, the old items stay. */
export function useList<const Path extends string>(
  path: Path & Routed<'get', Path>,
  query: Query = {},
): UseQueryResult<ResponseOf<'get', Path>> {
  return useQuery<ResponseOf<'get', Path>>({
    queryKey: [path, query],
    queryFn: ({ signal }) => get<Path>(path, query, signal),
    placeholderData: (before, beforeQuery) =>
      beforeQuery?.queryKey[0] === path ? before : undefined,
  });
}
