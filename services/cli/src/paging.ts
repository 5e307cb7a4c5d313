import type { Page, PageQuery } from '@carillon/admin/page';
import type { Command } from 'commander';
import { createIntegerParser } from './option-parsers.ts';

const DEFAULT_PAGE_SIZE = 100;
const MAX_PAGE_SIZE = 1_000;

/** Name of the option that takes a page's cursor: `--after` in rising order, `--before` in falling order. */
type CursorOption = 'after' | 'before';

/** Options that {@link addPaging} adds. */
export interface PagingOptions {
  limit: number;
  after?: string;
  before?: string;
}

/** Adds `--limit` and the option for the cursor, which is the last item of the previous page. */
export function addPaging(
  command: Command,
  cursorOption: CursorOption,
  placeholder: string,
): Command {
  return command
    .option(
      '--limit <number>',
      `maximum number of items, up to ${MAX_PAGE_SIZE}`,
      createIntegerParser(1, MAX_PAGE_SIZE),
      DEFAULT_PAGE_SIZE,
    )
    .option(
      `--${cursorOption} <${placeholder}>`,
      `continue after this ${placeholder}, the last of the previous page`,
    );
}

/** Converts the options to the query of a list. */
export function toPageQuery({ limit, after, before }: PagingOptions): PageQuery {
  return { limit, cursor: after ?? before };
}

/** Reads on until a page is full: pages of a list with filters can be short, or empty, before its end. */
export async function readFullPage<T>(
  query: PageQuery,
  read: (query: PageQuery) => Promise<Page<T>>,
): Promise<Page<T>> {
  const items: T[] = [];
  let { cursor } = query;
  do {
    const page = await read({ cursor, limit: query.limit - items.length });
    items.push(...page.items);
    cursor = page.next;
  } while (cursor !== undefined && items.length < query.limit);
  return { items, ...(cursor !== undefined && { next: cursor }) };
}

/** Formats a page, one line per item, with the option for the next page if there can be one. */
export function formatPage<T>(
  { items, next }: Page<T>,
  format: (item: T) => string,
  cursorOption: CursorOption,
): string[] {
  const lines = items.map(format);
  return next === undefined ? lines : [...lines, `Next page: --${cursorOption} ${next}`];
}
