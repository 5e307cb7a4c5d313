import { Stack, Text } from '@mantine/core';
import { useState } from 'react';
import type { FailedPush } from '../api/types.ts';
import { useList } from '../api/use-get.ts';
import { CHANNEL_NAMES, channelLabel, describeReason, REASON_NAMES } from '../lib/outcomes.ts';
import { readRange } from '../lib/time-range.ts';
import { formatCount } from '../lib/times.ts';
import { usePathId, useUrl } from '../lib/use-url.ts';
import { Empty } from '../parts/empty.tsx';
import { Choice, Filters, RangeFilter } from '../parts/filters.tsx';
import { type Column, List } from '../parts/list.tsx';
import { PushLink } from '../parts/object-links.tsx';
import { Page } from '../parts/page.tsx';
import { SavedFilters } from '../parts/saved-filters.tsx';
import { Time } from '../parts/time.tsx';
import { useMay } from '../shell/session.ts';
import { RedriveActions } from './failures/redrive-actions.tsx';
import { RedriveProgress } from './failures/redrive-progress.tsx';

const CHANNEL_OPTIONS = CHANNEL_NAMES.map((value) => ({ value, label: channelLabel(value) }));
const REASON_OPTIONS = REASON_NAMES.map((value) => ({ value, label: describeReason(value) }));

const COLUMNS: Column<FailedPush>[] = [
  { accessor: 'failedAt', title: 'Failed', render: ({ failedAt }) => <Time at={failedAt} /> },
  { accessor: 'push', title: 'Push', render: ({ push }) => <PushLink id={push} /> },
  { accessor: 'channel', title: 'Channel', render: ({ channel }) => channelLabel(channel) },
  {
    accessor: 'failed',
    title: 'Devices',
    textAlign: 'right',
    render: ({ failed }) => formatCount(failed),
  },
  {
    accessor: 'redriven',
    title: 'Re-driven',
    textAlign: 'right',
    render: ({ redriven }) => (redriven === 0 ? '–' : formatCount(redriven)),
  },
  { accessor: 'reasons', title: 'Why', render: ({ reasons }) => <Reasons reasons={reasons} /> },
];

type FailureParameter = 'channel' | 'reason' | 'range' | 'from' | 'to' | 'cursor' | 'redrive';

/** Lists failed deliveries of an app and re-drives them. */
export function FailuresPage() {
  const app = usePathId('app');
  const { search, change } = useUrl<FailureParameter>();
  const [selected, setSelected] = useState<FailedPush[]>([]);
  const { channel, reason, cursor, redrive } = search;
  const filter = { channel, reason, ...readRange(search, Date.now()) };
  const query = useList(`/apps/${app}/failures`, { ...filter, cursor });
  const mayRedrive = useMay('operator');
  return (
    <Page
      title="Failed deliveries"
      description="Deliveries that ended without reaching the device. A re-drive sends a new push to the devices that failed, with the expiry of the old one."
      actions={<SavedFilters page="failures" />}
    >
      {redrive !== undefined && (
        <RedriveProgress
          key={redrive}
          app={app}
          id={redrive}
          onClose={() => change({ redrive: undefined })}
        />
      )}
      <Filters>
        <Choice
          label="Channel"
          value={channel}
          options={CHANNEL_OPTIONS}
          onChange={(value) => change({ channel: value })}
        />
        <Choice
          label="Reason"
          value={reason}
          options={REASON_OPTIONS}
          onChange={(value) => change({ reason: value })}
        />
        <RangeFilter value={search} onChange={change} />
        {mayRedrive && (
          <RedriveActions
            app={app}
            filter={filter}
            selected={selected}
            onStart={(id) => {
              setSelected([]);
              change({ redrive: id });
            }}
          />
        )}
      </Filters>
      <List
        query={query}
        columns={COLUMNS}
        idOf={toId}
        isPaged
        {...(mayRedrive && { selection: { selected, onChange: setSelected } })}
        empty={<NoFailures />}
      />
    </Page>
  );
}

function toId({ push, channel, failedAt }: FailedPush): string {
  return `${push} ${channel} ${failedAt}`;
}

function Reasons({ reasons }: Pick<FailedPush, 'reasons'>) {
  return (
    <Stack gap={0} miw={180}>
      {reasons.map(({ reason, text, count }) => (
        <Text key={`${reason}:${text}`} fz="sm" className="wrap-anywhere">
          {describeReason(text)} <Text span inherit c="dimmed">{`× ${formatCount(count)}`}</Text>
        </Text>
      ))}
    </Stack>
  );
}

function NoFailures() {
  return (
    <Empty title="No failed deliveries here">
      A delivery that fails for good appears here with the provider’s own words. Jobs that fail are
      removed from the queues, so this list is the place to look. If a filter is set, none fits it.
    </Empty>
  );
}
