import { useLocation, useNavigate } from '@tanstack/react-router';
import { useUrl } from './use-url.ts';

/** Cursor of the first page in a trail. */
const FIRST = '';

/**
 * Returns the ways between the pages of a list, whose cursor is in the URL. The cursors of the pages before are kept
 * with the browser's history entry: a link that another operator opens leads to its page, the next ones and the first.
 */
export function usePaging() {
  const { search } = useUrl<'cursor'>();
  const { state } = useLocation();
  const navigate = useNavigate();
  const trail = readTrail(state);
  const open = (cursor: string, trailOfPage: readonly string[]): void => {
    void navigate({
      to: '.',
      search: { ...search, cursor: cursor || undefined } as never,
      state: { trail: trailOfPage } as never,
    });
  };
  const previous = trail.at(-1);
  return {
    isFirst: search.cursor === undefined,
    toFirst: () => open(FIRST, []),
    /** Undefined on the first page, and where the page before is not known. */
    toPrevious:
      search.cursor === undefined || previous === undefined
        ? undefined
        : () => open(previous, trail.slice(0, -1)),
    toNext: (cursor: string) => open(cursor, [...trail, search.cursor ?? FIRST]),
  };
}

function readTrail(state: unknown): string[] {
  const { trail } = (state ?? {}) as { trail?: unknown };
  return Array.isArray(trail) ? trail.filter((cursor) => typeof cursor === 'string') : [];
}
