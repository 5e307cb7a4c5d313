import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { createContext, useContext } from 'react';
import { isSessionEnd, queryClient, SESSION_KEY } from '../api/query-client.ts';
import { get, setCsrfToken } from '../api/request.ts';
import type { Role, Session } from '../api/types.ts';
import { mayActAs } from '../lib/roles.ts';

/** The session of the pages within the shell. */
export const SessionContext = createContext<Session | undefined>(undefined);

/** Reads the session; null when there is none. */
export function useSessionQuery(): UseQueryResult<Session | null> {
  return useQuery<Session | null>({
    queryKey: SESSION_KEY,
    staleTime: 60_000,
    queryFn: async () => {
      try {
        const session = await get('/session');
        setCsrfToken(session.csrf);
        return session;
      } catch (error) {
        if (isSessionEnd(error)) return null;
        throw error;
      }
    },
  });
}

/** Begins a session with the answer of a login. What another operator has seen is dropped. */
export function beginSession(session: Session): void {
  setCsrfToken(session.csrf);
  queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== SESSION_KEY[0] });
  queryClient.setQueryData(SESSION_KEY, session);
}

/** Ends the session in this tab. */
export function endSession(): void {
  setCsrfToken(undefined);
  queryClient.setQueryData(SESSION_KEY, null);
}

/** Returns the session; only for parts within the shell. */
export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error('used outside the shell');
  return session;
}

/** Checks that the operator may do what needs a role. */
export function useMay(least: Role): boolean {
  return mayActAs(useSession().operator.role, least);
}

/** Checks that the operator may do what concerns the whole installation. */
export function useMayInstallation(least: Role): boolean {
  const { operator } = useSession();
  return operator.accounts === 'all' && mayActAs(operator.role, least);
}
