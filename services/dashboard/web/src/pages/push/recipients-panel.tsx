import { Stack, Text } from '@mantine/core';
import { RequestError } from '../../api/request.ts';
import type { ListedRecipient } from '../../api/types.ts';
import { useGet, useList } from '../../api/use-get.ts';
import { channelLabel, describeReason, ENDS, outcomeStyle } from '../../lib/outcomes.ts';
import { formatDuration } from '../../lib/times.ts';
import { useUrl } from '../../lib/use-url.ts';
import { Empty } from '../../parts/empty.tsx';
import { Choice, Filters, TextFilter } from '../../parts/filters.tsx';
import { type Column, List } from '../../parts/list.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { DeviceLink } from '../../parts/object-links.tsx';
import { OutcomeMark } from '../../parts/outcomes.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RecipientFacts } from '../../parts/recipient-facts.tsx';

/** Token of a recipient that was erased. */
const ERASED = '*';
const OUTCOME_OPTIONS = ['pending', ...ENDS].map((value) => ({
  value,
  label: outcomeStyle(value).label,
}));

const COLUMNS: Column<ListedRecipient>[] = [
  {
    accessor: 'token',
    title: 'Device',
    render: ({ token }) => (token === ERASED ? 'Erased' : <DeviceLink token={token} />),
  },
  {
    accessor: 'outcome',
    title: 'Outcome',
    render: ({ outcome }) => <OutcomeMark outcome={outcome} />,
  },
  { accessor: 'channel', title: 'Channel', render: ({ channel }) => channelLabel(channel) },
  {
    accessor: 'milliseconds',
    title: 'Until the receipt',
    textAlign: 'right',
    render: ({ milliseconds }) => (milliseconds === undefined ? '–' : formatDuration(milliseconds)),
  },
  {
    accessor: 'detail',
    title: 'Why',
    render: ({ detail, reason }) => detail ?? describeReason(reason ?? '–'),
  },
];

/** Lists the recipients of a push, or shows one of them. Outcome and token are in the URL. */
export function RecipientsPanel({ push }: { push: string }) {
  const { search, change } = useUrl<'token' | 'outcome' | 'cursor'>();
  const { token, outcome } = search;
  return (
    <Panel title="Recipients">
      <Stack gap="md">
        <Filters>
          <Choice
            label="Outcome"
            value={outcome}
            options={OUTCOME_OPTIONS}
            onChange={(value) => change({ outcome: value, token: undefined })}
          />
          <TextFilter
            label="Device token"
            value={token}
            width={240}
            onChange={(value) => change({ token: value, outcome: undefined })}
          />
        </Filters>
        {token === undefined ? <Recipients push={push} /> : <Answer push={push} token={token} />}
      </Stack>
    </Panel>
  );
}

function Recipients({ push }: { push: string }) {
  const { search } = useUrl<'outcome' | 'cursor'>();
  const { outcome, cursor } = search;
  const recipients = useList(`/pushes/${push}/recipients`, { outcome, cursor });
  return (
    <List
      query={recipients}
      columns={COLUMNS}
      idOf={({ token }, row) => (token === ERASED ? `${ERASED}${row}` : token)}
      isPaged
      empty={
        <Empty title="No recipients">
          Subscribers of topics appear here once they are resolved. If a filter is set, none fits
          it.
        </Empty>
      }
    />
  );
}

function Answer({ push, token }: { push: string; token: string }) {
  const recipient = useGet(`/pushes/${push}/recipients/${encodeURIComponent(token)}`);
  const { error } = recipient;
  if (error instanceof RequestError && error.status === 404) {
    return (
      <Text fz="sm" role="status">
        This device is not a recipient of the push.
      </Text>
    );
  }
  return (
    <Loaded query={recipient} height={48}>
      {(found) => <RecipientFacts recipient={found} />}
    </Loaded>
  );
}
