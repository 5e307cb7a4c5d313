/** A saved filter: its name and the query of its URL. */
export interface SavedFilter {
  name: string;
  search: string;
}

const MAX_SAVED = 30;

/** Reads saved filters; what is not one is left out. */
export function parseSaved(text: string | undefined): SavedFilter[] {
  try {
    const list: unknown = JSON.parse(text ?? '[]');
    return Array.isArray(list) ? list.filter(isSavedFilter) : [];
  } catch {
    return [];
  }
}

function isSavedFilter(value: unknown): value is SavedFilter {
  return (
    typeof value === 'object' &&
    value !== null &&
    'name' in value &&
    'search' in value &&
    typeof value.name === 'string' &&
    typeof value.search === 'string'
  );
}

/** Adds a filter, or replaces the one of its name. The oldest ones go when there are too many. */
export function addSaved(list: readonly SavedFilter[], added: SavedFilter): SavedFilter[] {
  return [...list.filter(({ name }) => name !== added.name), added].slice(-MAX_SAVED);
}
