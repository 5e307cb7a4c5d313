import { QueryCache, QueryClient } from '@tanstack/react-query';
import { RequestError } from './request.ts';

export const SESSION_KEY = ['session'];

const MAX_RETRIES = 2;

/** Checks that an error says that the session has ended. */
export function isSessionEnd(error: unknown): boolean {
  return error instanceof RequestError && error.status === 401;
}

/** The cache of all responses. A 401 makes the shell read the session again, and then show the login. */
export const queryClient: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: handleError }),
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      refetchOnWindowFocus: true,
      retry: (count, error) => isTemporary(error) && count < MAX_RETRIES,
    },
    mutations: { onError: handleError },
  },
});

/** Drops the session after an answer 401, for queries and mutations alike. */
export function handleError(error: unknown): void {
  if (isSessionEnd(error)) queryClient.setQueryData(SESSION_KEY, null);
}

/** Only temporary errors are retried; a response of the server is shown at once. */
function isTemporary(error: unknown): boolean {
  return error instanceof RequestError && (error.status === 0 || error.status === 503);
}
