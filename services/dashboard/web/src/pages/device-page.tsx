import { Badge, Button, Group, Text } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { change } from '../api/request.ts';
import type { DeviceDetails, DevicePush } from '../api/types.ts';
import { useChange } from '../api/use-change.ts';
import { useGet, useList } from '../api/use-get.ts';
import { useRememberApp } from '../lib/current-app.ts';
import { describeDevice } from '../lib/device-note.ts';
import { channelLabel, describeReason } from '../lib/outcomes.ts';
import { readTestDevice, writeTestDevice } from '../lib/test-device.ts';
import { formatCount, formatDuration } from '../lib/times.ts';
import { usePathId, useUrl } from '../lib/use-url.ts';
import { tellDone, tellError } from '../parts/confirm.tsx';
import { ConfirmButton } from '../parts/confirm-button.tsx';
import { Empty } from '../parts/empty.tsx';
import { Facts } from '../parts/facts.tsx';
import { Id } from '../parts/id.tsx';
import { ButtonLink, TextLink } from '../parts/links.tsx';
import { type Column, List } from '../parts/list.tsx';
import { Loaded } from '../parts/loaded.tsx';
import { DeviceLink, PushLink } from '../parts/object-links.tsx';
import { OutcomeMark } from '../parts/outcomes.tsx';
import { Page } from '../parts/page.tsx';
import { Panel } from '../parts/panel.tsx';
import { Ago, Time } from '../parts/time.tsx';
import { useMay, useSession } from '../shell/session.ts';

type DevicePath = `/devices/${string}`;

/** Shows a device: where it is, what it waits for, and what it got. */
export function DevicePage() {
  const token = usePathId('token');
  const path = `/devices/${encodeURIComponent(token)}` as const;
  const device = useGet(path);
  useRememberApp(device.data?.app);
  return (
    <Page
      title={`Device ${token}`}
      heading={
        <>
          Device <Id id={token} label="Copy the token" />
        </>
      }
      actions={device.data !== undefined && <DeviceActions device={device.data} path={path} />}
    >
      <Loaded query={device} height={240}>
        {(found) => (
          <>
            <Panel title="About this device">
              <Facts facts={listFacts(found)} />
            </Panel>
            <Panel title="Topics" note={formatCount(found.subscriptions.length)}>
              <Topics device={found} />
            </Panel>
          </>
        )}
      </Loaded>
      <DevicePushes token={token} path={path} />
    </Page>
  );
}

function listFacts(device: DeviceDetails) {
  const { platform, way, presence, inbox, registeredAt, lastActiveAt, provider } = device;
  const { replacedBy, replaces, pushKind, expiresAt } = device;
  const note = describeDevice(device);
  return [
    ['Presence', <Presence key="presence" presence={presence} />],
    ['Platform', platform],
    ['Gets its pushes over', channelLabel(way ?? 'unknown')],
    ['Pending pushes', formatCount(inbox)],
    ['Registered', <Time key="registered" at={registeredAt} />],
    ['Last active', <Ago key="active" at={lastActiveAt} />],
    ...(provider === undefined
      ? []
      : ([
          ['Provider', channelLabel(provider.channel)],
          ['Its address since', <Time key="provider" at={provider.since} />],
        ] as const)),
    ...(pushKind === undefined ? [] : [['Kind of its token', pushKind] as const]),
    ...(expiresAt === undefined ? [] : [['Ends', <Time key="end" at={expiresAt} />] as const]),
    ...(replacedBy === undefined
      ? []
      : [['Replaced by', <DeviceLink key="by" token={replacedBy} />] as const]),
    ...(replaces === undefined
      ? []
      : [['Replaces', <DeviceLink key="former" token={replaces} />] as const]),
    ...(note === '–' ? [] : [['Note', note] as const]),
  ] as const;
}

function Presence({ presence }: Pick<DeviceDetails, 'presence'>) {
  if (presence.state !== 'online') {
    return presence.state === 'offline' ? 'Offline' : 'Not known at the moment';
  }
  return (
    <Group gap={6}>
      <Badge size="sm" variant="outline" color="green.9" c="var(--mantine-color-text)" tt="none">
        Online
      </Badge>
      <span className="mono">{presence.gateway}</span>
    </Group>
  );
}

function Topics({ device: { app, subscriptions } }: { device: DeviceDetails }) {
  if (subscriptions.length === 0) {
    return (
      <Text fz="sm" c="dimmed">
        The device has subscribed to no topic.
      </Text>
    );
  }
  return (
    <Group gap="sm">
      {subscriptions.map((topic) => (
        <TextLink key={topic} fz="sm" to="/apps/$app/topics/$topic" params={{ app, topic }}>
          {topic}
        </TextLink>
      ))}
    </Group>
  );
}

function DeviceActions({ device, path }: { device: DeviceDetails; path: DevicePath }) {
  const navigate = useNavigate();
  const { token, app, presence } = device;
  const disconnect = useChange({
    run: () => change('POST', `${path}/disconnect`),
    outdated: [[path]],
    done: 'The connection is closed. The device may connect again at once.',
  });
  const remove = useChange({
    run: () => change('DELETE', path),
    done: 'The device is deleted.',
    onDone: () => void navigate({ to: '/apps/$app/devices', params: { app } }),
  });
  if (!useMay('operator')) return null;
  return (
    <>
      <ButtonLink size="xs" to="/apps/$app/compose" params={{ app }} search={{ to: token }}>
        Send a push
      </ButtonLink>
      <TestDevice device={device} />
      {presence.state === 'online' && (
        <Button
          size="xs"
          variant="default"
          loading={disconnect.isPending}
          onClick={() => disconnect.mutate()}
        >
          Disconnect
        </Button>
      )}
      <ConfirmButton
        label="Delete"
        isPending={remove.isPending}
        confirmation={{
          title: 'Delete this device?',
          text: 'Its subscriptions and its inbox are deleted too. To receive pushes again, the app on it must register anew.',
          action: 'Delete',
          onConfirm: () => remove.mutate(),
        }}
      />
    </>
  );
}

/** Chooses the device to which the composer sends the operator's tests of the app. */
function TestDevice({ device: { token, app } }: { device: DeviceDetails }) {
  const { operator } = useSession();
  const [chosen, setChosen] = useState(() => readTestDevice(operator.id, app));
  const choose = (next: string | undefined, done: string): void => {
    const isStored = writeTestDevice(operator.id, app, next);
    if (!isStored) tellError(new Error('This browser stores nothing for the console.'));
    else {
      setChosen(next);
      tellDone(done);
    }
  };
  return chosen === token ? (
    <Button
      size="xs"
      variant="default"
      onClick={() => choose(undefined, 'You have no test device of this app.')}
    >
      Not my test device
    </Button>
  ) : (
    <Button
      size="xs"
      variant="default"
      onClick={() => choose(token, 'It is your test device of this app, in this browser.')}
    >
      Use as my test device
    </Button>
  );
}

function DevicePushes({ token, path }: { token: string; path: DevicePath }) {
  const { search } = useUrl<'cursor'>();
  const pushes = useList(`${path}/pushes`, { cursor: search.cursor });
  return (
    <Panel title="Pushes">
      <List
        query={pushes}
        columns={listColumns(token)}
        idOf={({ id }) => id}
        isPaged
        empty={
          <Empty title="No pushes">
            Pushes to this device appear here until they are removed from storage.
          </Empty>
        }
      />
    </Panel>
  );
}

function listColumns(token: string): Column<DevicePush>[] {
  return [
    { accessor: 'id', title: 'Push', render: ({ id }) => <PushLink id={id} token={token} /> },
    {
      accessor: 'acceptedAt',
      title: 'Accepted',
      render: ({ acceptedAt }) => <Time at={acceptedAt} />,
    },
    {
      accessor: 'outcome',
      title: 'Outcome',
      render: ({ outcome }) => <OutcomeMark outcome={outcome} />,
    },
    {
      accessor: 'milliseconds',
      title: 'Until the receipt',
      textAlign: 'right',
      render: ({ milliseconds }) =>
        milliseconds === undefined ? '–' : formatDuration(milliseconds),
    },
    {
      accessor: 'detail',
      title: 'Why',
      render: ({ detail, reason }) => detail ?? describeReason(reason ?? '–'),
    },
  ];
}
