import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import type { TextSearch } from './search-text.ts';

type Changes<Name extends string> = { [name in Name]?: string | undefined };

/** Returns the parameters of the URL's query and a function that changes some of them. */
export function useUrl<Name extends string>() {
  const found: unknown = useSearch({ strict: false });
  const search = found as TextSearch<Name>;
  const navigate = useNavigate();
  const change = (changes: Changes<Name>): void => {
    // A cursor belongs to the filter that it was made with.
    const next = { ...search, cursor: undefined, ...changes };
    void navigate({ to: '.', search: next as never });
  };
  return { search, change };
}

/** Returns the id in the URL's path; empty on a page without it. */
export function usePathId(name: 'app' | 'push' | 'token' | 'topic'): string {
  const params = useParams({ strict: false }) as Partial<Record<string, string>>;
  return params[name] ?? '';
}
