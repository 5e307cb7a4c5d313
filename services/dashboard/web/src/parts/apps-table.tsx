import { Badge, Group, Text } from '@mantine/core';
import type { OverviewApp } from '../api/types.ts';
import { useGet } from '../api/use-get.ts';
import { formatCount, formatDuration } from '../lib/times.ts';
import { TextLink } from './links.tsx';
import { type Column, ListTable } from './list-table.tsx';
import { Loaded } from './loaded.tsx';
import { Panel } from './panel.tsx';

const COLUMNS: Column<OverviewApp>[] = [
  { accessor: 'name', title: 'App', render: (app) => <AppName app={app} /> },
  {
    ...{ accessor: 'pending', title: 'Pending', textAlign: 'right' },
    render: ({ pending, isAtLeast }) => describePending(pending, isAtLeast),
  },
  {
    ...{ accessor: 'oldestMs', title: 'Oldest', textAlign: 'right' },
    render: ({ pending, oldestMs }) => (pending ? formatDuration(oldestMs) : '–'),
  },
  {
    ...{ accessor: 'accepted', title: 'Accepted', textAlign: 'right' },
    render: ({ accepted }) => formatCount(accepted),
  },
  {
    ...{ accessor: 'delivered', title: 'Delivered', textAlign: 'right' },
    render: ({ delivered }) => formatCount(delivered),
  },
  {
    ...{ accessor: 'failed', title: 'Failed', textAlign: 'right' },
    render: ({ failed }) => formatCount(failed),
  },
];

/** Shows the apps with the most pending batches, then the most pushes of the last hour. */
export function AppsTable({ apps }: { apps: readonly OverviewApp[] }) {
  return (
    <Panel title="Busiest apps" note="Pending batches now; pushes and deliveries of the last hour">
      {apps.length === 0 ? (
        <Text fz="sm" c="dimmed">
          No app has pending batches, or has accepted a push in the last hour.
        </Text>
      ) : (
        <ListTable items={apps} columns={COLUMNS} idOf={({ id }) => id} />
      )}
    </Panel>
  );
}

function describePending(pending: number | null, isAtLeast: boolean): string {
  if (pending === null) return '–';
  return isAtLeast ? `at least ${formatCount(pending)}` : formatCount(pending);
}

/** Shows the apps of the overview, which the line of health keeps live. */
export function BusiestApps() {
  const overview = useGet('/overview');
  return (
    <Loaded query={overview} height={160}>
      {({ apps }) => <AppsTable apps={apps} />}
    </Loaded>
  );
}

function AppName({ app: { id, name, paused } }: { app: OverviewApp }) {
  return (
    <Group gap="xs" wrap="nowrap">
      <TextLink to="/apps/$app" params={{ app: id }} className="wrap-anywhere">
        {name}
      </TextLink>
      {paused && (
        <Badge size="sm" variant="outline" tt="none">
          Paused
        </Badge>
      )}
    </Group>
  );
}
