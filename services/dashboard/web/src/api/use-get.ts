import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { get, type Query } from './request.ts';
import type { Page } from './types.ts';

interface GetOptions {
  enabled?: boolean;
  /** Reads again after this time. */
  everyMs?: number | false;
}

/** Reads from the API. The query's key is `[path, query]`, so that a change can name the path. */
export function useGet<T>(
  path: string,
  query: Query = {},
  { enabled = true, everyMs = false }: GetOptions = {},
): UseQueryResult<T> {
  return useQuery<T>({
    queryKey: [path, query],
    queryFn: ({ signal }) => get<T>(path, query, signal),
    enabled,
    refetchInterval: everyMs,
  });
}

/** Reads a page of a list. While a filter changes, the old items stay. */
export function useList<T>(path: string, query: Query = {}): UseQueryResult<Page<T>> {
  return useQuery<Page<T>>({
    queryKey: [path, query],
    queryFn: ({ signal }) => get<Page<T>>(path, query, signal),
    placeholderData: (before, beforeQuery) =>
      beforeQuery?.queryKey[0] === path ? before : undefined,
  });
}
