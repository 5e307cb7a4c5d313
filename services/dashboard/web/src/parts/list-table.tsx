import { Checkbox, Table } from '@mantine/core';
import type { ReactNode } from 'react';
import { Sideways } from './sideways.tsx';

/** Column of a list. Without `render` it shows the item's own value. */
export interface Column<T> {
  accessor: keyof T & string;
  title: string;
  textAlign?: 'right';
  /** In pixels; the content's width unless given. */
  width?: number;
  render?: (item: T) => ReactNode;
}

/** Items that are ticked, also on other pages. */
export interface Selection<T> {
  selected: readonly T[];
  onChange: (selected: T[]) => void;
}

interface ListTableProps<T> {
  items: readonly T[];
  columns: readonly Column<T>[];
  /** Identifies an item among those of the page. */
  idOf: (item: T, row?: number) => string;
  selection?: Selection<T>;
  /** Names the table for screen readers, where a page has several. */
  label?: string;
}

/** Shows items as rows of a table that scrolls sideways where it is too wide. */
export function ListTable<T>({
  items,
  columns,
  idOf,
  selection,
  label = 'Table',
}: ListTableProps<T>) {
  return (
    <Sideways label={label}>
      <Table verticalSpacing={6} horizontalSpacing="sm" fz="sm" highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            {selection !== undefined && (
              <Table.Th w={36}>
                <SelectAll items={items} idOf={idOf} selection={selection} />
              </Table.Th>
            )}
            {columns.map(({ accessor, title, textAlign, width }) => (
              <Table.Th key={accessor} ta={textAlign ?? 'left'} {...(width && { w: width })}>
                {title}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {items.map((item, row) => (
            <Table.Tr key={idOf(item, row)}>
              {selection !== undefined && (
                <Table.Td>
                  <SelectOne item={item} idOf={idOf} selection={selection} />
                </Table.Td>
              )}
              {columns.map((column) => (
                <Table.Td key={column.accessor} ta={column.textAlign ?? 'left'}>
                  {renderCell(item, column)}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Sideways>
  );
}

function renderCell<T>(item: T, { accessor, render }: Column<T>): ReactNode {
  if (render !== undefined) return render(item);
  const value = item[accessor];
  return value === undefined || value === null ? '–' : String(value);
}

type SelectProps<T> = Pick<ListTableProps<T>, 'idOf'> & { selection: Selection<T> };

function SelectOne<T>({ item, idOf, selection }: SelectProps<T> & { item: T }) {
  const { selected, onChange } = selection;
  const id = idOf(item);
  const others = selected.filter((one) => idOf(one) !== id);
  const isSelected = others.length < selected.length;
  return (
    <Checkbox
      size="xs"
      aria-label={`Select ${id}`}
      checked={isSelected}
      onChange={() => onChange(isSelected ? others : [...others, item])}
    />
  );
}

function SelectAll<T>({ items, idOf, selection }: SelectProps<T> & { items: readonly T[] }) {
  const { selected, onChange } = selection;
  const ids = new Set(items.map((item) => idOf(item)));
  const others = selected.filter((one) => !ids.has(idOf(one)));
  const selectedHere = selected.length - others.length;
  const areAllSelected = selectedHere === items.length;
  return (
    <Checkbox
      size="xs"
      aria-label="Select all of this page"
      checked={areAllSelected}
      indeterminate={selectedHere > 0 && !areAllSelected}
      onChange={() => onChange(areAllSelected ? others : [...others, ...items])}
    />
  );
}
