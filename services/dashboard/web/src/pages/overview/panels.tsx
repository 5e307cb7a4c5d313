import { Group, Stack, Table, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Overview } from '../../api/types.ts';
import { channelLabel, describeReason } from '../../lib/outcomes.ts';
import { sumMinutes } from '../../lib/overview-sums.ts';
import { formatCount, formatDuration } from '../../lib/times.ts';
import { TextLink } from '../../parts/links.tsx';
import { OutcomeMark } from '../../parts/outcomes.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Ago } from '../../parts/time.tsx';

interface PanelProps {
  overview: Overview;
}

/** Shows the pending work of each channel. */
export function Channels({ overview: { channels } }: PanelProps) {
  return (
    <Panel title="Pending deliveries">
      {channels.length === 0 ? (
        <Nothing>Not known at the moment: the database has not responded.</Nothing>
      ) : (
        <FigureTable head={['Channel', 'Pending', 'Oldest', 'Deferred']}>
          {channels.map(({ channel, pending, oldestMs, deferred }) => (
            <FigureRow
              key={channel}
              cells={[
                channelLabel(channel),
                formatCount(pending),
                pending === 0 ? '–' : formatDuration(oldestMs),
                formatCount(deferred),
              ]}
            />
          ))}
        </FigureTable>
      )}
    </Panel>
  );
}

/** Shows how many devices each gateway has connected. */
export function Gateways({ overview: { gateways } }: PanelProps) {
  const total = gateways.reduce((sum, { online }) => sum + online, 0);
  return (
    <Panel title="Devices online" note={formatCount(total)}>
      {gateways.length === 0 ? (
        <Nothing>No gateway has reported its connections yet.</Nothing>
      ) : (
        <FigureTable head={['Gateway', 'Online']}>
          {gateways.map(({ id, online }) => (
            <FigureRow key={id} cells={[id, formatCount(online)]} />
          ))}
        </FigureTable>
      )}
    </Panel>
  );
}

/** Shows the deliveries that did not reach their device, by outcome and reason. */
export function Failures({ overview: { minutes } }: PanelProps) {
  const { others, reasons } = sumMinutes(minutes);
  const byCount = (a: [string, number], b: [string, number]) => b[1] - a[1];
  const outcomes = Object.entries(others).sort(byCount);
  return (
    <Panel
      title="Not delivered"
      note={minutes.length === 1 ? 'Last minute' : `Last ${minutes.length} minutes`}
    >
      {outcomes.length === 0 ? (
        <Nothing>Every delivery that ended reached its device or provider.</Nothing>
      ) : (
        <Stack gap="sm">
          <FigureTable head={['Outcome', 'Deliveries']}>
            {outcomes.map(([outcome, count]) => (
              <FigureRow
                key={outcome}
                cells={[<OutcomeMark key="mark" outcome={outcome} />, formatCount(count)]}
              />
            ))}
          </FigureTable>
          {Object.keys(reasons).length > 0 && (
            <FigureTable head={['Why deliveries failed', 'Deliveries']}>
              {Object.entries(reasons)
                .sort(byCount)
                .map(([reason, count]) => (
                  <FigureRow key={reason} cells={[describeReason(reason), formatCount(count)]} />
                ))}
            </FigureTable>
          )}
        </Stack>
      )}
    </Panel>
  );
}

/** Shows the credentials that their provider refuses. */
export function RefusedCredentials({ overview }: PanelProps) {
  const { refusedCredentials, refusedCredentialsAt } = overview;
  return (
    <Panel title="Refused credentials">
      {refusedCredentials.length === 0 && (
        <Nothing>
          {refusedCredentialsAt === null
            ? 'Not known at the moment: the database has not responded.'
            : 'No provider has refused a credential in the last hour.'}
        </Nothing>
      )}
      <Stack gap="xs">
        {refusedCredentials.map(({ app, appName, channel, message, refusedAt }) => (
          <Group key={`${app} ${channel} ${message}`} gap="xs">
            <TextLink fz="sm" to="/apps/$app" params={{ app }} search={{ tab: 'credentials' }}>
              {appName}
            </TextLink>
            <Text fz="sm">{channelLabel(channel)}</Text>
            <Text fz="sm" c="var(--mantine-color-error)" className="wrap-anywhere">
              {message}
            </Text>
            <Text fz="xs" c="dimmed">
              <Ago at={refusedAt} />
            </Text>
          </Group>
        ))}
      </Stack>
    </Panel>
  );
}

function Nothing({ children }: { children: ReactNode }) {
  return (
    <Text fz="sm" c="dimmed">
      {children}
    </Text>
  );
}

function FigureTable({ head, children }: { head: readonly string[]; children: ReactNode }) {
  return (
    <Table verticalSpacing={5} fz="sm">
      <Table.Thead>
        <Table.Tr>
          {head.map((name, column) => (
            <Table.Th key={name} {...(column > 0 && { className: 'numeric' })}>
              {name}
            </Table.Th>
          ))}
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>{children}</Table.Tbody>
    </Table>
  );
}

function FigureRow({ cells: [name, ...figures] }: { cells: readonly ReactNode[] }) {
  return (
    <Table.Tr>
      <Table.Td className="wrap-anywhere">{name}</Table.Td>
      {figures.map((figure, column) => (
        <Table.Td key={column} className="numeric">
          {figure}
        </Table.Td>
      ))}
    </Table.Tr>
  );
}
