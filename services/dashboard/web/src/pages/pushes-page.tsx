import { Box, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import type { PushHead } from '../api/types.ts';
import { useList } from '../api/use-get.ts';
import { STATE_FILTERS, stateLabel } from '../lib/outcomes.ts';
import { type RangeSearch, readRange } from '../lib/time-range.ts';
import { formatCount } from '../lib/times.ts';
import { useCoalesced } from '../lib/use-coalesced.ts';
import { usePathId, useUrl } from '../lib/use-url.ts';
import { useLive } from '../live/use-live.ts';
import { Empty } from '../parts/empty.tsx';
import { Choice, Filters, RangeFilter } from '../parts/filters.tsx';
import { ButtonLink, TextLink } from '../parts/links.tsx';
import { type Column, List } from '../parts/list.tsx';
import { LiveState } from '../parts/live-state.tsx';
import { PushLink } from '../parts/object-links.tsx';
import { OutcomeBar } from '../parts/outcomes.tsx';
import { Page } from '../parts/page.tsx';
import { SavedFilters } from '../parts/saved-filters.tsx';
import { Time } from '../parts/time.tsx';
import { useMay } from '../shell/session.ts';

/** Changes of a page's pushes within this time are read together. */
const REFRESH_MS = 2_000;
const ENDED_STATES = ['finished', 'deleted'];
const STATE_OPTIONS = STATE_FILTERS.map((value) => ({ value, label: stateLabel(value) }));

const COLUMNS: Column<PushHead>[] = [
  { accessor: 'id', title: 'Push', render: ({ id }) => <PushLink id={id} /> },
  { accessor: 'state', title: 'State', render: ({ state }) => stateLabel(state) },
  {
    accessor: 'acceptedAt',
    title: 'Accepted',
    render: ({ acceptedAt }) => <Time at={acceptedAt} />,
  },
  { accessor: 'dueAt', title: 'Due', render: ({ dueAt }) => <Time at={dueAt} /> },
  {
    accessor: 'devices',
    title: 'Devices',
    textAlign: 'right',
    render: ({ devices }) => formatCount(devices),
  },
  {
    accessor: 'topics',
    title: 'Topics',
    render: ({ topics = [] }) => (
      <Text fz="sm" lineClamp={1} maw={220}>
        {topics.join(', ') || '–'}
      </Text>
    ),
  },
  {
    accessor: 'counts',
    title: 'Outcomes',
    width: 160,
    // Only a finished push has its counts in the list.
    render: ({ counts }) =>
      counts === undefined ? <Text c="dimmed">–</Text> : <OutcomeBar counts={counts} />,
  },
];

/** Lists the pushes of an app, the newest first. */
export function PushesPage() {
  const app = usePathId('app');
  const { search, change } = useUrl<'state' | 'range' | 'from' | 'to' | 'cursor'>();
  const { state, cursor } = search;
  const range: RangeSearch = search;
  const path = `/apps/${app}/pushes` as const;
  const query = useList(path, {
    ...readRange(range, Date.now()),
    state,
    cursor,
  });
  const status = useLivePushes(path, query.data?.items ?? []);
  const maySend = useMay('operator');
  return (
    <Page
      title="Pushes"
      description="The newest first, by the time at which they are due."
      actions={
        <>
          {status !== undefined && <LiveState status={status} />}
          <SavedFilters page="pushes" />
          {maySend && (
            <ButtonLink size="xs" to="/apps/$app/compose" params={{ app }}>
              Compose
            </ButtonLink>
          )}
        </>
      }
    >
      <Box>
        <Filters>
          <Choice
            label="State"
            value={state}
            options={STATE_OPTIONS}
            onChange={(value) => change({ state: value })}
          />
          <RangeFilter value={range} onChange={change} />
        </Filters>
      </Box>
      <List
        query={query}
        columns={COLUMNS}
        idOf={({ id }) => id}
        isPaged
        empty={<NoPushes app={app} />}
      />
    </Page>
  );
}

/** Reads the list again when one of its pushes has changed that has not ended. */
function useLivePushes(path: string, items: readonly PushHead[]) {
  const client = useQueryClient();
  const refresh = useCoalesced(
    () => void client.invalidateQueries({ queryKey: [path] }),
    REFRESH_MS,
  );
  const changing = items.filter(({ state }) => !ENDED_STATES.includes(state));
  const status = useLive({ pushes: changing.map(({ id }) => id) }, (message) => {
    if (message.kind === 'push') refresh();
  });
  return changing.length === 0 ? undefined : status;
}

function NoPushes({ app }: { app: string }) {
  return (
    <Empty title="No pushes here">
      Pushes that a backend sends by <span className="mono">POST /push</span> appear here, also
      those of the{' '}
      <TextLink to="/apps/$app/compose" params={{ app }}>
        composer
      </TextLink>
      . If a filter is set, none fits it.
    </Empty>
  );
}
