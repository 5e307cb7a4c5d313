import { Table, Text } from '@mantine/core';
import type { TimelineEvent } from '../../api/types.ts';
import { formatDuration } from '../../lib/times.ts';
import { Sideways } from '../../parts/sideways.tsx';
import { Time } from '../../parts/time.tsx';

const EVENTS: Record<string, string> = {
  accepted: 'Accepted',
  due: 'Due',
  'first-receipt': 'First receipt from a device',
  'last-receipt': 'Last receipt from a device',
  'first-failure': 'First failed delivery',
  'first-batch-settled': 'First batch done',
  'last-batch-settled': 'Last batch done',
  finished: 'Finished',
  expires: 'Expires',
};

/** Shows the events of a push with the time since delivery could begin. */
export function Timeline({ events }: { events: readonly TimelineEvent[] }) {
  const startedAt = findStart(events);
  return (
    <Sideways label="Events of the push">
      <Table verticalSpacing={5} fz="sm">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Event</Table.Th>
            <Table.Th>Time</Table.Th>
            <Table.Th className="numeric">Since the start</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {events.map(({ at, what }) => (
            <Table.Tr key={what}>
              <Table.Td>{EVENTS[what] ?? what}</Table.Td>
              <Table.Td>
                <Time at={at} />
              </Table.Td>
              <Table.Td className="numeric">
                {at > startedAt ? `+ ${formatDuration(at - startedAt)}` : <Text c="dimmed">–</Text>}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Sideways>
  );
}

/** Returns when delivery could begin: a scheduled push when it is due. */
function findStart(events: readonly TimelineEvent[]): number {
  const timeOf = (name: string) => events.find(({ what }) => what === name)?.at;
  return timeOf('due') ?? timeOf('accepted') ?? 0;
}
