import { Skeleton, Stack } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { isSessionEnd } from '../api/query-client.ts';
import { Failure } from './failure.tsx';

interface LoadedProps<T> {
  query: UseQueryResult<T>;
  /** Height of the content, which the skeleton holds. */
  height?: number;
  skeleton?: ReactNode;
  children: (data: T) => ReactNode;
}

/** Shows a query's data; before, a skeleton of their size; after a failure, the error with a retry. */
export function Loaded<T>({ query, height = 120, skeleton, children }: LoadedProps<T>) {
  if (query.data !== undefined) {
    return (
      <>
        {query.isError && !isSessionEnd(query.error) && (
          <Failure error={query.error} retry={() => query.refetch()} />
        )}
        {children(query.data)}
      </>
    );
  }
  // The shell leads to the login.
  if (query.isError && !isSessionEnd(query.error)) {
    return <Failure error={query.error} retry={() => query.refetch()} />;
  }
  return <Loading>{skeleton ?? <Skeleton height={height} />}</Loading>;
}

/** Names a skeleton for screen readers. */
export function Loading({ children }: { children: ReactNode }) {
  return (
    <div role="status" aria-label="Loading">
      {children}
    </div>
  );
}

/** Shows the skeleton of a list. */
export function SkeletonRows({ rows = 8 }: { rows?: number }) {
  return (
    <Stack gap={8} py={4}>
      {Array.from({ length: rows }, (_, row) => (
        <Skeleton key={row} height={30} />
      ))}
    </Stack>
  );
}
