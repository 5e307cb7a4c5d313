import { Text } from '@mantine/core';
import type { AuditEntry } from '../api/types.ts';
import { useList } from '../api/use-get.ts';
import { readRange } from '../lib/time-range.ts';
import { useUrl } from '../lib/use-url.ts';
import { Empty } from '../parts/empty.tsx';
import { Filters, RangeFilter, TextFilter } from '../parts/filters.tsx';
import { type Column, List } from '../parts/list.tsx';
import { Page } from '../parts/page.tsx';
import { SavedFilters } from '../parts/saved-filters.tsx';
import { Time } from '../parts/time.tsx';

const COLUMNS: Column<AuditEntry>[] = [
  { accessor: 'at', title: 'Time', render: ({ at }) => <Time at={at} /> },
  { accessor: 'actor', title: 'Operator', render: ({ actor }) => actor.name },
  {
    accessor: 'action',
    title: 'Action',
    render: ({ action }) => <span className="mono">{action}</span>,
  },
  { accessor: 'facts', title: 'What', render: ({ facts }) => <FactList facts={facts} /> },
  { accessor: 'result', title: 'Result', render: ({ result }) => <Result result={result} /> },
  { accessor: 'address', title: 'From' },
  {
    accessor: 'requestId',
    title: 'Request',
    render: ({ requestId }) => (
      <Text fz="xs" className="mono wrap-anywhere" miw={120}>
        {requestId}
      </Text>
    ),
  },
];

/** Lists the actions of operators, the newest first. No role can change the list. */
export function AuditPage() {
  const { search, change } = useUrl<'actor' | 'action' | 'range' | 'from' | 'to' | 'cursor'>();
  const { actor, action, cursor } = search;
  const query = useList('/audit', {
    ...{ actor, action, cursor },
    ...readRange(search, Date.now()),
  });
  return (
    <Page
      title="Audit log"
      description="Who did what, the newest first. Entries can’t be changed."
      actions={<SavedFilters page="audit" />}
    >
      <Filters>
        <TextFilter
          label="Operator (name or id)"
          value={actor}
          onChange={(value) => change({ actor: value })}
        />
        <TextFilter
          label="Action"
          placeholder="push.send"
          value={action}
          onChange={(value) => change({ action: value })}
        />
        <RangeFilter value={search} onChange={change} />
      </Filters>
      <List
        query={query}
        columns={COLUMNS}
        idOf={({ id }) => id}
        isPaged
        empty={
          <Empty title="No entries here">
            Logins and every change by an operator appear here. If a filter is set, none fits it.
          </Empty>
        }
      />
    </Page>
  );
}

function FactList({ facts }: Pick<AuditEntry, 'facts'>) {
  const texts = Object.entries(facts).map(([name, value]) => `${name}: ${String(value)}`);
  return (
    <Text fz="xs" className="mono wrap-anywhere" miw={160}>
      {texts.join(', ') || '–'}
    </Text>
  );
}

function Result({ result }: Pick<AuditEntry, 'result'>) {
  if (result === 'done') return 'Done';
  return (
    <Text span fz="sm" c="var(--mantine-color-error)">
      {result === 'unknown' ? 'Not known' : result}
    </Text>
  );
}
