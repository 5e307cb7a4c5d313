import { Box, Text } from '@mantine/core';
import {
  IconActivity,
  IconAlertTriangle,
  IconApps,
  IconBuilding,
  IconDeviceMobile,
  IconHistory,
  IconPencil,
  IconSend,
  IconSettings,
  IconStack2,
  IconTags,
  IconUsers,
} from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { useCurrentApp } from '../lib/current-app.ts';
import { NavigationLink } from '../parts/links.tsx';
import { useMay, useMayInstallation } from './session.ts';

const ICON = { size: 17, stroke: 1.6, 'aria-hidden': true } as const;
const exact = { activeOptions: { exact: true, includeSearch: false } } as const;
const within = { activeOptions: { exact: false, includeSearch: false } } as const;

/** Lists the pages that the operator may open. */
export function Navigation() {
  const app = useCurrentApp();
  const maySeeQueues = useMayInstallation('viewer');
  const isOwner = useMayInstallation('owner');
  const isAdmin = useMay('admin');
  return (
    <Box flex={1} mih={0} style={{ overflowY: 'auto' }}>
      <NavigationLink {...exact} to="/" label="Overview" leftSection={<IconActivity {...ICON} />} />
      {app !== undefined && <AppLinks app={app} />}
      <Group label="Installation">
        <NavigationLink {...exact} to="/apps" label="Apps" leftSection={<IconApps {...ICON} />} />
        <NavigationLink
          {...within}
          to="/accounts"
          label="Accounts"
          leftSection={<IconBuilding {...ICON} />}
        />
        {maySeeQueues && (
          <NavigationLink
            {...within}
            to="/queues"
            label="Queues"
            leftSection={<IconStack2 {...ICON} />}
          />
        )}
        {isOwner && (
          <NavigationLink
            {...within}
            to="/operators"
            label="Operators"
            leftSection={<IconUsers {...ICON} />}
          />
        )}
        {isAdmin && (
          <NavigationLink
            {...within}
            to="/audit"
            label="Audit log"
            leftSection={<IconHistory {...ICON} />}
          />
        )}
      </Group>
    </Box>
  );
}

function AppLinks({ app }: { app: string }) {
  const maySend = useMay('operator');
  const common = { ...within, params: { app } };
  return (
    <Group label="App">
      <NavigationLink
        {...common}
        to="/apps/$app/pushes"
        label="Pushes"
        leftSection={<IconSend {...ICON} />}
      />
      {maySend && (
        <NavigationLink
          {...common}
          to="/apps/$app/compose"
          label="Compose"
          leftSection={<IconPencil {...ICON} />}
        />
      )}
      <NavigationLink
        {...common}
        to="/apps/$app/failures"
        label="Failed deliveries"
        leftSection={<IconAlertTriangle {...ICON} />}
      />
      <NavigationLink
        {...common}
        to="/apps/$app/devices"
        label="Devices"
        leftSection={<IconDeviceMobile {...ICON} />}
      />
      <NavigationLink
        {...common}
        to="/apps/$app/topics"
        label="Topics"
        leftSection={<IconTags {...ICON} />}
      />
      <NavigationLink
        {...exact}
        params={{ app }}
        to="/apps/$app"
        label="Keys and settings"
        leftSection={<IconSettings {...ICON} />}
      />
    </Group>
  );
}

function Group({ label, children }: { label: string; children: ReactNode }) {
  return (
    <section aria-label={label}>
      <Text fz="xs" fw={600} c="dimmed" px="sm" pt="md" pb={4}>
        {label}
      </Text>
      {children}
    </section>
  );
}
