import { Button, Group, Text, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { handleError } from '../api/query-client.ts';
import { get } from '../api/request.ts';
import type { Device } from '../api/types.ts';
import { useGet, useList } from '../api/use-get.ts';
import { describeDevice } from '../lib/device-note.ts';
import { channelLabel } from '../lib/outcomes.ts';
import { formatCount } from '../lib/times.ts';
import { usePathId, useUrl } from '../lib/use-url.ts';
import { Empty } from '../parts/empty.tsx';
import { Failure } from '../parts/failure.tsx';
import { Filters } from '../parts/filters.tsx';
import { type Column, List } from '../parts/list.tsx';
import { DeviceLink } from '../parts/object-links.tsx';
import { Page } from '../parts/page.tsx';
import { Ago, Time } from '../parts/time.tsx';

const COLUMNS: Column<Device>[] = [
  { accessor: 'token', title: 'Device token', render: ({ token }) => <DeviceLink token={token} /> },
  { accessor: 'platform', title: 'Platform' },
  { accessor: 'way', title: 'Way', render: ({ way }) => channelLabel(way ?? 'unknown') },
  {
    accessor: 'registeredAt',
    title: 'Registered',
    render: ({ registeredAt }) => <Time at={registeredAt} />,
  },
  {
    accessor: 'lastActiveAt',
    title: 'Last active',
    render: ({ lastActiveAt }) => <Ago at={lastActiveAt} />,
  },
  { accessor: 'uninstalled', title: 'Note', render: (device) => describeDevice(device) },
];

/** Lists the devices of an app, and finds one by its token. */
export function DevicesPage() {
  const app = usePathId('app');
  const { search } = useUrl<'cursor'>();
  const query = useList(`/apps/${app}/devices`, { cursor: search.cursor });
  return (
    <Page title="Devices" description="In order of their tokens.">
      <FindDevice />
      <IdleDevices app={app} />
      <List
        query={query}
        columns={COLUMNS}
        idOf={({ token }) => token}
        isPaged
        empty={
          <Empty title="No devices yet">
            A device appears here when the app on it registers by one of the SDKs, with this app’s
            id or key.
          </Empty>
        }
      />
    </Page>
  );
}

/** Shows how many devices were not seen for long. */
function IdleDevices({ app }: { app: string }) {
  const { data } = useGet(`/apps/${app}/idle-devices`);
  if (data === undefined) return null;
  const { count, isAtLeast, days } = data;
  return (
    <Text fz="sm" mb="sm">
      Not seen for {days} days: {formatCount(count)}
      {isAtLeast && ' or more'}.
    </Text>
  );
}

function FindDevice() {
  const [text, setText] = useState('');
  const navigate = useNavigate();
  const find = useMutation({
    mutationFn: async () => {
      const { items } = await get('/find', { q: text.trim() });
      return items.find(({ kind }) => kind === 'device');
    },
    onSuccess: (found) => {
      if (found !== undefined)
        void navigate({ to: '/devices/$token', params: { token: found.id } });
    },
    onError: handleError,
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (text.trim() !== '') find.mutate();
  };
  return (
    <form onSubmit={submit}>
      <Filters>
        <TextInput
          size="xs"
          w={{ base: '100%', xs: 340 }}
          label="Device token, or token of the provider"
          spellCheck={false}
          value={text}
          onChange={({ currentTarget }) => setText(currentTarget.value)}
        />
        <Button size="xs" type="submit" variant="default" loading={find.isPending}>
          Find
        </Button>
      </Filters>
      <Group role="status">
        {find.isSuccess && find.data === undefined && (
          <Text fz="sm" mt="xs">
            No device of this token that you have access to.
          </Text>
        )}
      </Group>
      {find.isError && <Failure error={find.error} />}
    </form>
  );
}
