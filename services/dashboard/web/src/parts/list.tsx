import { Button, Group, Paper } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Page } from '../api/types.ts';
import { usePaging } from '../lib/use-paging.ts';
import classes from './list.module.css';
import { type Column, ListTable, type Selection } from './list-table.tsx';
import { Loaded, SkeletonRows } from './loaded.tsx';

export type { Column } from './list-table.tsx';

interface ListProps<T> {
  query: UseQueryResult<Page<T>>;
  columns: readonly Column<T>[];
  idOf: (item: T, row?: number) => string;
  /** Shown when there is no item at all. */
  empty: ReactNode;
  /** True if the URL's `cursor` selects the page of the query. */
  isPaged?: boolean;
  selection?: Selection<T>;
  /** Names the table for screen readers, where a page has several. */
  label?: string;
}

/** Shows one page of a list as a table, with the ways to the pages before and after it. */
export function List<T>({ isPaged = false, ...props }: ListProps<T>) {
  return (
    <Paper withBorder className={classes.frame}>
      <Loaded query={props.query} skeleton={<SkeletonRows rows={10} />}>
        {(page) => (
          <>
            <Items {...props} items={page.items} hasMore={page.next !== undefined} />
            {isPaged && <Pager next={page.next} />}
          </>
        )}
      </Loaded>
    </Paper>
  );
}

function Items<T>({
  items,
  hasMore,
  empty,
  ...table
}: ListProps<T> & { items: readonly T[]; hasMore: boolean }) {
  // A search reads a limited number of items a page: none of them may match although later ones do.
  if (items.length === 0) return hasMore ? <NoneHere /> : empty;
  return <ListTable items={items} {...table} />;
}

function Pager({ next }: { next: string | undefined }) {
  const { isFirst, toFirst, toPrevious, toNext } = usePaging();
  if (isFirst && next === undefined) return null;
  const common = { size: 'xs', variant: 'default' } as const;
  return (
    <Group justify="flex-end" gap="xs" p="xs" className={classes.pager}>
      <Button {...common} disabled={isFirst} onClick={toFirst}>
        First page
      </Button>
      <Button {...common} disabled={toPrevious === undefined} onClick={() => toPrevious?.()}>
        Previous page
      </Button>
      <Button
        {...common}
        disabled={next === undefined}
        onClick={() => next !== undefined && toNext(next)}
      >
        Next page
      </Button>
    </Group>
  );
}

function NoneHere() {
  return (
    <p className={classes.none}>
      Nothing found on this page. There are older entries: go on with “Next page”.
    </p>
  );
}
