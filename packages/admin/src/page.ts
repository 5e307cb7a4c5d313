/** Request for one page of a list. */
export interface PageQuery {
  /** Maximum number of items. */
  limit: number;
  /** `next` of the previous page; absent for the first page. */
  cursor?: string | undefined;
}

/** One page of a list. */
export interface Page<T> {
  items: T[];
  /** Cursor of the next page, which can be empty; absent when this page is the last. */
  next?: string;
}

/** Makes a page of items; a page with fewer than `limit` items is the last. */
export function toPage<T>(
  items: T[],
  { limit }: PageQuery,
  cursorOf: (item: T) => string,
): Page<T> {
  const last = items.at(-1);
  return last === undefined || items.length < limit ? { items } : { items, next: cursorOf(last) };
}
