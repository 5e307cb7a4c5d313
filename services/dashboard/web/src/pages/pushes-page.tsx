import { Box, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import type { PushItem } from '../api/types.ts';
import { useList } from '../api/use-get.ts';
import { ENDS, outcomeStyle, STATE_FILTERS, stateLabel } from '../lib/outcomes.ts';
import { describeSender } from '../lib/push-words.ts';
import { readRange } from '../lib/time-range.ts';
import { useCoalesced } from '../lib/use-coalesced.ts';
import { usePathId, useUrl } from '../lib/use-url.ts';
import { useLive } from '../live/use-live.ts';
import { Empty } from '../parts/empty.tsx';
import { Choice, Filters, RangeFilter, TextFilter } from '../parts/filters.tsx';
import { ButtonLink, TextLink } from '../parts/links.tsx';
import { type Column, List } from '../parts/list.tsx';
import { LiveState } from '../parts/live-state.tsx';
import { Page } from '../parts/page.tsx';
import { SavedFilters } from '../parts/saved-filters.tsx';
import { Time } from '../parts/time.tsx';
import { useMay } from '../shell/session.ts';
import { Audience, OneLine, PushName, PushProgress } from './pushes/cells.tsx';

/** Changes of a page's pushes within this time are read together. */
const REFRESH_MS = 2_000;
const ENDED_STATES = ['finished', 'deleted'];
const STATE_OPTIONS = STATE_FILTERS.map((value) => ({ value, label: stateLabel(value) }));
const OUTCOME_OPTIONS = ENDS.map((value) => ({ value, label: outcomeStyle(value).label }));

type PushParameter = 'state' | 'topic' | 'token' | 'outcome' | 'range' | 'from' | 'to' | 'cursor';

// The outcome stands beside the push, so that it shows on a phone.
const COLUMNS: Column<PushItem>[] = [
  { accessor: 'id', title: 'Push', render: ({ id, title }) => <PushName id={id} title={title} /> },
  {
    accessor: 'counts',
    title: 'Outcomes',
    width: 160,
    render: (push) => <PushProgress push={push} />,
  },
  { accessor: 'state', title: 'State', render: ({ state }) => stateLabel(state) },
  { accessor: 'topics', title: 'To', render: (push) => <Audience push={push} /> },
  { accessor: 'by', title: 'From', render: ({ by }) => <OneLine text={describeSender(by)} /> },
  {
    accessor: 'acceptedAt',
    title: 'Accepted',
    render: ({ acceptedAt }) => <Time at={acceptedAt} />,
  },
  { accessor: 'dueAt', title: 'Due', render: ({ dueAt }) => <Time at={dueAt} /> },
];

/** Lists the pushes of an app, the newest first. */
export function PushesPage() {
  const app = usePathId('app');
  const { search } = useUrl<PushParameter>();
  const { range, from, to, ...filter } = search;
  const path = `/apps/${app}/pushes` as const;
  const query = useList(path, { ...readRange({ range, from, to }, Date.now()), ...filter });
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
      <PushFilters />
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

function PushFilters() {
  const { search, change } = useUrl<PushParameter>();
  const { state, topic, token, outcome } = search;
  const isOfEnded = outcome !== undefined && outcome !== 'failed' && token === undefined;
  return (
    <Box>
      <Filters>
        <Choice
          label="State"
          value={state}
          options={STATE_OPTIONS}
          onChange={(value) => change({ state: value })}
        />
        <Choice
          label="Outcome"
          value={outcome}
          options={OUTCOME_OPTIONS}
          onChange={(value) => change({ outcome: value })}
        />
        <TextFilter
          label="Topic"
          value={topic}
          width={150}
          onChange={(value) => change({ topic: value })}
        />
        <TextFilter
          label="Device token"
          value={token}
          width={190}
          onChange={(value) => change({ token: value })}
        />
        <RangeFilter value={search} onChange={change} />
      </Filters>
      {isOfEnded && (
        <Text fz="xs" c="dimmed" mt={6}>
          Only pushes that have ended: the others are found by failed recipients alone.
        </Text>
      )}
    </Box>
  );
}

/** Reads the list again when one of its pushes has changed that has not ended. */
function useLivePushes(path: string, items: readonly PushItem[]) {
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
