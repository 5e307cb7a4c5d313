import { Button, Group, Paper } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import { DataTable, type DataTableColumn } from 'mantine-datatable';
import type { ReactNode } from 'react';
import 'mantine-datatable/styles.css';
import type { Page } from '../api/types.ts';
import classes from './list.module.css';
import { Loaded, SkeletonRows } from './loaded.tsx';

export type Column<T> = DataTableColumn<T>;

interface ListProps<T> {
  query: UseQueryResult<Page<T>>;
  columns: Column<T>[];
  idOf: (item: T) => string;
  /** Shown when there is no item at all. */
  empty: ReactNode;
  /** The cursor in the URL. */
  cursor?: string | undefined;
  onCursor?: (cursor: string | undefined) => void;
  selection?: { selected: T[]; onChange: (selected: T[]) => void };
}

/** Shows one page of a list as a table, with the ways to the next page and back to the first. */
export function List<T>(props: ListProps<T>) {
  const { query, cursor, onCursor } = props;
  return (
    <Paper withBorder className={classes.frame}>
      <Loaded query={query} skeleton={<SkeletonRows rows={10} />}>
        {(page) => (
          <>
            <Items {...props} items={page.items} hasMore={page.next !== undefined} />
            {onCursor !== undefined && (page.next !== undefined || cursor !== undefined) && (
              <Group justify="flex-end" gap="xs" p="xs" className={classes.pager}>
                <Button
                  size="xs"
                  variant="default"
                  disabled={cursor === undefined}
                  onClick={() => onCursor(undefined)}
                >
                  First page
                </Button>
                <Button
                  size="xs"
                  variant="default"
                  disabled={page.next === undefined}
                  onClick={() => onCursor(page.next)}
                >
                  Next page
                </Button>
              </Group>
            )}
          </>
        )}
      </Loaded>
    </Paper>
  );
}

function Items<T>({
  items,
  hasMore,
  columns,
  idOf,
  empty,
  selection,
}: ListProps<T> & { items: T[]; hasMore: boolean }) {
  // A filter looks at a limited number of items a page: none of them may fit, and the next ones do.
  if (items.length === 0) return hasMore ? <NoneHere /> : empty;
  const selectionProps =
    selection === undefined
      ? {}
      : {
          selectedRecords: selection.selected,
          onSelectedRecordsChange: selection.onChange,
          allRecordsSelectionCheckboxProps: { 'aria-label': 'Select all of this page' },
          getRecordSelectionCheckboxProps: (item: T) => ({ 'aria-label': `Select ${idOf(item)}` }),
        };
  return (
    <DataTable
      records={items}
      columns={columns}
      idAccessor={(item) => idOf(item)}
      verticalSpacing={6}
      horizontalSpacing="sm"
      fz="sm"
      highlightOnHover
      minHeight={0}
      // A wide table scrolls within the page: by keyboard too.
      scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}
      className={classes.table ?? ''}
      {...selectionProps}
    />
  );
}

function NoneHere() {
  return (
    <p className={classes.none}>
      Nothing on this page fits the filter. There are older entries: go on with “Next page”.
    </p>
  );
}
